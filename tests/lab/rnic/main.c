// SPDX-License-Identifier: GPL-2.0-only
/*
 * Simulated ConnectX-class RNIC: PCI binding, plug and unplug, module life.
 */
#include <linux/debugfs.h>
#include <linux/etherdevice.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>

#include "rnic.h"

/*
 * QEMU's e1000e is a PCI Express endpoint with AER; the lab gives it this
 * subsystem, so that no real e1000e of the guest is taken.
 */
#define CARRIER_VENDOR 0x8086
#define CARRIER_DEVICE 0x10d3
#define CARRIER_SUBVENDOR 0x15b3
#define CARRIER_SUBDEVICE 0x0023

static unsigned int count;
module_param(count, uint, 0444);
MODULE_PARM_DESC(count, "extra devices without a PCI parent");

static unsigned int seed;
module_param(seed, uint, 0444);
MODULE_PARM_DESC(seed, "second half of MAC addresses and GUIDs above the device number (0 = random)");

static unsigned int switchdev;
module_param(switchdev, uint, 0444);
MODULE_PARM_DESC(switchdev, "the first N PCI functions show the counters of switchdev mode");

LIST_HEAD(rnic_list);
DEFINE_MUTEX(rnic_mutex);
struct dentry *rnic_mlx5_dir;

/* Sleeps as a firmware command that does not come back; an unplug ends it. */
int rnic_hang(struct rnic *sim, const u32 *ms)
{
	unsigned long end = jiffies + msecs_to_jiffies(READ_ONCE(*ms));

	if (!READ_ONCE(sim->live))
		return 0;
	/* Short steps keep the hung-task watchdog silent; 0 ends a hang early. */
	while (READ_ONCE(*ms) && time_before(jiffies, end) && !READ_ONCE(sim->gone))
		wait_event_timeout(sim->wait, READ_ONCE(sim->gone) || !READ_ONCE(*ms),
				   min_t(unsigned long, end - jiffies, 20 * HZ));
	return READ_ONCE(sim->gone) ? -ENODEV : 0;
}

void rnic_log_query(struct rnic *sim, const char *what, int err)
{
	if (sim->log == RNIC_LOG_OFF || !READ_ONCE(sim->live))
		return;
	if (err)
		pr_err("%s %s: rnic: %s failed, status bad parameter(0x3), syndrome (0x5cfe0), err(%d)\n",
		       RNIC_DRIVER, sim->pdev ? pci_name(sim->pdev) : sim->name, what, -err);
	else if (sim->log == RNIC_LOG_DOWN && !READ_ONCE(sim->link_up))
		pr_warn("%s %s: rnic: %s on a port that is down\n", RNIC_DRIVER,
			sim->pdev ? pci_name(sim->pdev) : sim->name, what);
}

void rnic_link_event(struct rnic *sim)
{
	struct ib_event event = {};

	ASSERT_RTNL();
	if (!sim->event_dev)
		return;
	event.device = sim->event_dev;
	event.element.port_num = 1;
	event.event = netif_running(sim->ndev) && netif_carrier_ok(sim->ndev) ?
		IB_EVENT_PORT_ACTIVE : IB_EVENT_PORT_ERR;
	ib_dispatch_event(&event);
}

int rnic_plug(struct rnic *sim)
{
	u32 serial = seed * 1024 + sim->id;
	u8 mac[ETH_ALEN] = { 0x02, 0x15, 0xb3, serial >> 16, serial >> 8, serial };
	u64 guid = 0x021500b300000000ull | ((u64)(seed & 0x3fff) << 16) | sim->id;
	int err;

	lockdep_assert_held(&rnic_mutex);
	if (sim->ib)
		return -EALREADY;
	WRITE_ONCE(sim->gone, false);
	err = rnic_netdev_register(sim, mac);
	if (err)
		return err;
	err = rnic_ib_register(sim, guid);
	if (err) {
		rnic_netdev_unregister(sim);
		return err;
	}
	WRITE_ONCE(sim->live, true);
	rtnl_lock();
	sim->event_dev = &sim->ib->ibdev;
	rnic_link_event(sim);
	rtnl_unlock();
	return 0;
}

void rnic_unplug(struct rnic *sim)
{
	lockdep_assert_held(&rnic_mutex);
	if (!sim->ib)
		return;
	/* First end what sleeps: it may hold RTNL, and unregistering waits for it. */
	WRITE_ONCE(sim->gone, true);
	wake_up_all(&sim->wait);
	rtnl_lock();
	sim->event_dev = NULL;
	rtnl_unlock();
	rnic_ib_unregister(sim);
	rnic_netdev_unregister(sim);
	WRITE_ONCE(sim->live, false);
}

struct rnic *rnic_find(const char *name)
{
	struct rnic *sim;

	lockdep_assert_held(&rnic_mutex);
	/* The present names win over the first ones: udev may have renamed. */
	list_for_each_entry(sim, &rnic_list, list)
		if ((sim->ib && !strcmp(dev_name(&sim->ib->ibdev.dev), name)) ||
		    (sim->ndev && !strcmp(netdev_name(sim->ndev), name)) ||
		    (sim->pdev && !strcmp(pci_name(sim->pdev), name)))
			return sim;
	list_for_each_entry(sim, &rnic_list, list)
		if (!strcmp(sim->name, name))
			return sim;
	return NULL;
}

/* The lowest number that is free, so that a function rebound gets its name again. */
static int free_id(void)
{
	struct rnic *sim;
	int id = 0;

again:
	list_for_each_entry(sim, &rnic_list, list)
		if (sim->id == id) {
			id++;
			goto again;
		}
	return id;
}

static struct rnic *rnic_new(struct pci_dev *pdev)
{
	struct rnic *sim = kvzalloc(sizeof(*sim), GFP_KERNEL);

	if (!sim)
		return NULL;
	sim->pdev = pdev;
	init_waitqueue_head(&sim->wait);
	sim->link_up = true;
	sim->speed = SPEED_400000;
	sim->ext_state = ETHTOOL_LINK_EXT_STATE_NO_CABLE;
	rnic_netdev_defaults(sim);
	rnic_dcb_defaults(sim);

	mutex_lock(&rnic_mutex);
	sim->id = free_id();
	snprintf(sim->name, sizeof(sim->name), "mlx5_%d", sim->id);
	sim->switchdev = pdev && sim->id < switchdev;
	list_add_tail(&sim->list, &rnic_list);
	mutex_unlock(&rnic_mutex);
	return sim;
}

static void rnic_free(struct rnic *sim)
{
	mutex_lock(&rnic_mutex);
	rnic_unplug(sim);
	if (sim->pdev) {
		rnic_pcie_detach(sim);
		/* The next match must see the function that QEMU made. */
		sim->pdev->vendor = sim->pci_vendor;
		sim->pdev->device = sim->pci_device;
	}
	list_del(&sim->list);
	mutex_unlock(&rnic_mutex);
	kvfree(sim);
}

static int rnic_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct rnic *sim = rnic_new(pdev);
	int err;

	if (!sim)
		return -ENOMEM;
	sim->pci_vendor = pdev->vendor;
	sim->pci_device = pdev->device;
	pdev->vendor = CARRIER_SUBVENDOR;
	pdev->device = RNIC_PCI_DEVICE;
	pci_set_drvdata(pdev, sim);

	mutex_lock(&rnic_mutex);
	err = rnic_plug(sim);
	mutex_unlock(&rnic_mutex);
	if (err)
		goto fail;
	rnic_cc_init(sim);
	pci_info(pdev, "simulated RNIC %s, firmware version: %d.%d.%04d\n", sim->name,
		 RNIC_FW_MAJOR, RNIC_FW_MINOR, RNIC_FW_SUB);
	return 0;

fail:
	rnic_free(sim);
	return err;
}

static void rnic_remove(struct pci_dev *pdev)
{
	struct rnic *sim = pci_get_drvdata(pdev);

	rnic_cc_exit(sim);
	rnic_free(sim);
}

static const struct pci_device_id rnic_ids[] = {
	{ PCI_DEVICE_SUB(CARRIER_VENDOR, CARRIER_DEVICE, CARRIER_SUBVENDOR, CARRIER_SUBDEVICE) },
	{}
};
/* No MODULE_DEVICE_TABLE: the module is loaded by rnicctl only. */

static struct pci_driver rnic_driver = {
	.name = RNIC_DRIVER,
	.id_table = rnic_ids,
	.probe = rnic_probe,
	.remove = rnic_remove,
};

static void rnic_free_extra(void)
{
	struct rnic *sim, *next;

	list_for_each_entry_safe(sim, next, &rnic_list, list)
		if (!sim->pdev)
			rnic_free(sim);
}

static int __init rnic_init(void)
{
	unsigned int i;
	int err;

	if (!seed)
		seed = 1 + get_random_u32() % 0x3ffe;
	rnic_eth_names_init();
	rnic_mlx5_dir = debugfs_create_dir("mlx5", NULL);
	err = rnic_control_init();
	if (err)
		goto fail_dir;
	err = pci_register_driver(&rnic_driver);
	if (err)
		goto fail_control;
	for (i = 0; i < count; i++) {
		struct rnic *sim = rnic_new(NULL);

		err = -ENOMEM;
		if (!sim)
			goto fail_extra;
		mutex_lock(&rnic_mutex);
		err = rnic_plug(sim);
		mutex_unlock(&rnic_mutex);
		if (err)
			goto fail_extra;
	}
	return 0;

fail_extra:
	rnic_free_extra();
	pci_unregister_driver(&rnic_driver);
fail_control:
	rnic_control_exit();
fail_dir:
	debugfs_remove(rnic_mlx5_dir);
	return err;
}

static void __exit rnic_exit(void)
{
	/* No command may run from here on: it would find a device that is being freed. */
	rnic_control_exit();
	rnic_free_extra();
	pci_unregister_driver(&rnic_driver);
	debugfs_remove(rnic_mlx5_dir);
}

module_init(rnic_init);
module_exit(rnic_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Simulated ConnectX-class RNIC for tests");
