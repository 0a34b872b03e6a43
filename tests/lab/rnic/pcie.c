// SPDX-License-Identifier: GPL-2.0-only
/*
 * Simulated ConnectX-class RNIC: the PCIe link.
 *
 * QEMU's endpoints are 2.5 GT/s x1 for ever and refuse a write of the maximum
 * read request. So the registers that tell of the link are answered here, for
 * the function and for the root port above it, by ops put over those of their
 * buses. That happens with the first `pcie` command of a device, not before.
 */
#include <linux/delay.h>
#include <linux/log2.h>
#include <linux/rcupdate.h>

#include "rnic.h"

#define MAX_BUSES 32
#define BASE_SPEED 5 /* 32 GT/s */
#define BASE_WIDTH 16
#define BASE_READ_REQ 512

static struct {
	struct pci_bus *bus;
	struct pci_ops *orig;
	struct pci_ops ops;
} buses[MAX_BUSES];

static struct rnic *targets[MAX_BUSES];

/*
 * What the PCI core has read once and keeps: the capability's version, without
 * which it does not look for speeds above 5 GT/s, and on newer kernels the
 * speeds themselves.
 */
struct kept {
	u16 flags;
	u8 speeds;
};

static struct kept kept[MAX_BUSES][2];

static void keep(struct pci_dev *pdev, struct kept *kept)
{
	kept->flags = pdev->pcie_flags_reg;
	pdev->pcie_flags_reg = (kept->flags & ~PCI_EXP_FLAGS_VERS) | 2;
#if RNIC_KERNEL_6_12
	kept->speeds = pdev->supported_speeds;
#endif
}

static void restore(struct pci_dev *pdev, const struct kept *kept)
{
	pdev->pcie_flags_reg = kept->flags;
#if RNIC_KERNEL_6_12
	pdev->supported_speeds = kept->speeds;
#endif
}

static void tell_speeds(struct pci_dev *pdev, u16 speed)
{
#if RNIC_KERNEL_6_12
	WRITE_ONCE(pdev->supported_speeds, (BIT(speed) - 1) << 1);
#endif
}

/* Which end of which simulated link a function is. */
static struct rnic *find_target(struct pci_bus *bus, unsigned int devfn, bool *upstream)
{
	int i;

	for (i = 0; i < MAX_BUSES; i++) {
		struct rnic *sim = READ_ONCE(targets[i]);
		struct pci_dev *port;

		if (!sim)
			continue;
		if (sim->pdev->bus == bus && sim->pdev->devfn == devfn) {
			*upstream = false;
			return sim;
		}
		port = sim->pdev->bus->self;
		if (port && port->bus == bus && port->devfn == devfn) {
			*upstream = true;
			return sim;
		}
	}
	return NULL;
}

static struct pci_ops *orig_ops(struct pci_bus *bus)
{
	int i;

	for (i = 0; i < MAX_BUSES; i++)
		if (READ_ONCE(buses[i].bus) == bus)
			return buses[i].orig;
	return NULL;
}

static u32 put(u32 reg, u32 mask, u32 value)
{
	return (reg & ~mask) | ((value << (ffs(mask) - 1)) & mask);
}

static u32 change(struct rnic *sim, bool upstream, int offset, u32 reg)
{
	u32 speed = upstream ? sim->pcie_slot_speed : sim->pcie_max_speed;
	u32 width = upstream ? sim->pcie_slot_width : sim->pcie_max_width;

	switch (offset) {
	case 0: /* PCI_EXP_FLAGS is its upper half */
		reg = put(reg, PCI_EXP_FLAGS_VERS << 16, 2);
		break;
	case PCI_EXP_DEVCTL:
		if (!upstream)
			reg = put(reg, PCI_EXP_DEVCTL_READRQ, ilog2(sim->max_read_req) - 7);
		break;
	case PCI_EXP_LNKCAP:
		reg = put(reg, PCI_EXP_LNKCAP_SLS, speed);
		reg = put(reg, PCI_EXP_LNKCAP_MLW, width);
		break;
	case PCI_EXP_LNKCTL: /* LNKSTA is its upper half */
		reg = put(reg, PCI_EXP_LNKSTA_CLS << 16, sim->pcie_speed);
		reg = put(reg, PCI_EXP_LNKSTA_NLW << 16, sim->pcie_width);
		break;
	case PCI_EXP_LNKCAP2:
		reg = put(reg, 0xfe, BIT(speed) - 1);
		break;
	}
	return reg;
}

static int do_read(struct pci_bus *bus, unsigned int devfn, int where, int size, u32 *value)
{
	struct pci_ops *ops = orig_ops(bus);
	bool upstream;
	struct rnic *sim = find_target(bus, devfn, &upstream);
	int pos, err;
	u32 reg;

	if (!ops)
		return PCIBIOS_DEVICE_NOT_FOUND;
	pos = sim ? upstream ? sim->pdev->bus->self->pcie_cap : sim->pdev->pcie_cap : 0;
	if (!pos || where < pos || where >= pos + PCI_EXP_SLTSTA2)
		return ops->read(bus, devfn, where, size, value);
	err = ops->read(bus, devfn, where & ~3, 4, &reg);
	if (err)
		return err;
	reg = change(sim, upstream, (where & ~3) - pos, reg);
	*value = (reg >> 8 * (where & 3)) & (size == 4 ? ~0u : BIT(8 * size) - 1);
	return 0;
}

static int do_write(struct pci_bus *bus, unsigned int devfn, int where, int size, u32 value)
{
	struct pci_ops *ops = orig_ops(bus);
	bool upstream;
	struct rnic *sim = find_target(bus, devfn, &upstream);

	if (!ops)
		return PCIBIOS_DEVICE_NOT_FOUND;
	if (sim && !upstream && where == sim->pdev->pcie_cap + PCI_EXP_DEVCTL && size >= 2)
		WRITE_ONCE(sim->max_read_req, min(128 << ((value & PCI_EXP_DEVCTL_READRQ) >> 12), 4096));
	return ops->write(bus, devfn, where, size, value);
}

/* Configuration accesses take no lock on x86; the RCU section is what a detach waits for. */
static int read(struct pci_bus *bus, unsigned int devfn, int where, int size, u32 *value)
{
	int err;

	rcu_read_lock();
	err = do_read(bus, devfn, where, size, value);
	rcu_read_unlock();
	return err;
}

static int write(struct pci_bus *bus, unsigned int devfn, int where, int size, u32 value)
{
	int err;

	rcu_read_lock();
	err = do_write(bus, devfn, where, size, value);
	rcu_read_unlock();
	return err;
}

static int cover(struct pci_bus *bus)
{
	int i;

	if (orig_ops(bus))
		return 0;
	for (i = 0; i < MAX_BUSES; i++)
		if (!buses[i].bus) {
			buses[i].orig = bus->ops;
			buses[i].ops = *bus->ops;
			buses[i].ops.read = read;
			buses[i].ops.write = write;
			smp_store_release(&buses[i].bus, bus);
			pci_bus_set_ops(bus, &buses[i].ops);
			return 0;
		}
	return -ENOSPC;
}

static void uncover(struct pci_bus *bus)
{
	int i;

	for (i = 0; i < MAX_BUSES; i++)
		if (buses[i].bus == bus) {
			pci_bus_set_ops(bus, buses[i].orig);
			/* An access that is under way may still be in our functions. */
			synchronize_rcu();
			msleep(20);
			WRITE_ONCE(buses[i].bus, NULL);
		}
}

static bool is_target(struct rnic *sim)
{
	int i;

	for (i = 0; i < MAX_BUSES; i++)
		if (targets[i] == sim)
			return true;
	return false;
}

static int attach(struct rnic *sim)
{
	struct pci_bus *bus = sim->pdev->bus;
	int i, err;

	if (!bus->self || !sim->pdev->pcie_cap || !bus->self->pcie_cap)
		return -EOPNOTSUPP;
	sim->pcie_speed = BASE_SPEED;
	sim->pcie_width = BASE_WIDTH;
	sim->pcie_max_speed = BASE_SPEED;
	sim->pcie_max_width = BASE_WIDTH;
	sim->pcie_slot_speed = BASE_SPEED;
	sim->pcie_slot_width = BASE_WIDTH;
	sim->max_read_req = BASE_READ_REQ;
	for (i = 0; targets[i]; i++)
		if (i == MAX_BUSES - 1)
			return -ENOSPC;
	err = cover(bus);
	if (!err)
		err = cover(bus->self->bus);
	if (err)
		return err;
	keep(sim->pdev, &kept[i][0]);
	keep(bus->self, &kept[i][1]);
	WRITE_ONCE(targets[i], sim);
	return 0;
}

void rnic_pcie_detach(struct rnic *sim)
{
	struct pci_bus *upper;
	bool shared = false;
	int i;

	lockdep_assert_held(&rnic_mutex);
	if (!is_target(sim))
		return;
	upper = sim->pdev->bus->self->bus;
	for (i = 0; i < MAX_BUSES; i++) {
		if (targets[i] == sim) {
			restore(sim->pdev, &kept[i][0]);
			restore(sim->pdev->bus->self, &kept[i][1]);
			WRITE_ONCE(targets[i], NULL);
		} else if (targets[i] && targets[i]->pdev->bus->self->bus == upper) {
			shared = true;
		}
	}
	uncover(sim->pdev->bus);
	if (!shared)
		uncover(upper);
}

int rnic_pcie_set(struct rnic *sim, const char *what, u32 value)
{
	bool speed = strstr(what, "speed"), width = strstr(what, "width");
	u16 *field = !strcmp(what, "speed") ? &sim->pcie_speed :
		     !strcmp(what, "width") ? &sim->pcie_width :
		     !strcmp(what, "max_speed") ? &sim->pcie_max_speed :
		     !strcmp(what, "max_width") ? &sim->pcie_max_width :
		     !strcmp(what, "slot_speed") ? &sim->pcie_slot_speed :
		     !strcmp(what, "slot_width") ? &sim->pcie_slot_width :
		     !strcmp(what, "max_read_req") ? &sim->max_read_req : NULL;
	int err;

	lockdep_assert_held(&rnic_mutex);
	if (!field || !sim->pdev)
		return -EINVAL;
	/* A speed is a generation; it and a width go to 6 and 32 as the registers know them. 63 lanes: all ones, off the bus. */
	if (speed && (value < 1 || value > 6))
		return -EINVAL;
	if (width && value != 63 && (value < 1 || value > 32))
		return -EINVAL;
	if (!speed && !width && (!is_power_of_2(value) || value < 128 || value > 4096))
		return -EINVAL;
	if (!is_target(sim)) {
		err = attach(sim);
		if (err)
			return err;
	}
	WRITE_ONCE(*field, value);
	tell_speeds(sim->pdev, sim->pcie_max_speed);
	tell_speeds(sim->pdev->bus->self, sim->pcie_slot_speed);
	return 0;
}
