// SPDX-License-Identifier: GPL-2.0-only
/*
 * Simulated ConnectX-class RNIC: control from a test.
 *
 * debugfs rnic/control takes one command a write, the words of which rnicctl
 * passes on; rnic/list and rnic/dump show what is.
 */
#include <linux/ctype.h>
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/rtnetlink.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "rnic.h"

static struct dentry *control_dir;

static const struct {
	const char *name;
	int value;
} errnos[] = {
	{ "0", 0 },
	{ "EPERM", EPERM },	    { "ENOENT", ENOENT },   { "EIO", EIO },
	{ "ENXIO", ENXIO },	    { "EAGAIN", EAGAIN },   { "ENOMEM", ENOMEM },
	{ "EACCES", EACCES },	    { "EBUSY", EBUSY },	    { "ENODEV", ENODEV },
	{ "EINVAL", EINVAL },	    { "ENODATA", ENODATA }, { "ETIMEDOUT", ETIMEDOUT },
	{ "EOPNOTSUPP", EOPNOTSUPP }, { "ENOSYS", ENOSYS },   { "EREMOTEIO", EREMOTEIO },
	{ "EMSGSIZE", EMSGSIZE },
};

static int parse_errno(const char *word, int *value)
{
	int i, err;

	for (i = 0; i < ARRAY_SIZE(errnos); i++)
		if (!strcmp(errnos[i].name, word)) {
			*value = errnos[i].value;
			return 0;
		}
	err = kstrtoint(word, 10, value);
	return err ? err : *value < 0 || *value > 4095 ? -EINVAL : 0;
}

static const char *errno_name(int value)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(errnos); i++)
		if (errnos[i].value == value)
			return errnos[i].name;
	return "?";
}

static int list_index(const char *const *names, int n, const char *name)
{
	int i;

	for (i = 0; i < n; i++)
		if (!strcmp(names[i], name))
			return i;
	return -ENOENT;
}

/* The value array of a class, its index of a name, its size. */
struct value_class {
	const char *prefix;
	u64 *values;
	int index;
	int count;
};

static int classes(struct rnic *sim, const char *name, struct value_class *out)
{
	out[0] = (struct value_class){ "hw", sim->hw, rnic_hw_index(name), rnic_hw_count() };
	out[1] = (struct value_class){ "hw", sim->vport, rnic_vport_index(name), rnic_vport_count() };
	out[2] = (struct value_class){ "port", sim->port,
				 list_index(rnic_port_names, RNIC_MAX_PORT, name), RNIC_MAX_PORT };
	out[3] = (struct value_class){ "ethtool", sim->eth, rnic_eth_index(name), rnic_eth_count() };
	out[4] = (struct value_class){ "fec", sim->fec,
				 list_index(rnic_fec_names, RNIC_MAX_FEC, name), RNIC_MAX_FEC };
	out[5] = (struct value_class){ "netdev", sim->netdev,
				 list_index(rnic_netdev_names, RNIC_MAX_NETDEV, name),
				 RNIC_MAX_NETDEV };
	return 6;
}

static int do_set(struct rnic *sim, char *counter, const char *word)
{
	char *colon = strchr(counter, ':');
	const char *name = colon ? colon + 1 : counter;
	struct value_class all[6];
	int i, k, err, n;
	bool found = false;
	u64 value;

	err = kstrtoull(word, 0, &value);
	if (err)
		return err;
	if (colon)
		*colon = 0;
	n = classes(sim, name, all);
	for (i = 0; i < n && !found; i++) {
		if (colon && strcmp(all[i].prefix, counter))
			continue;
		if (colon && !strcmp(name, "*")) {
			for (k = 0; k < all[i].count; k++)
				WRITE_ONCE(all[i].values[k], value);
			/* "hw" has a second array. */
			found = i != 0;
		} else if (all[i].index >= 0) {
			WRITE_ONCE(all[i].values[all[i].index], value);
			found = true;
		}
	}
	if (!found)
		return -ENOENT;
	rnic_drop_cache(sim);
	return 0;
}

static int do_hang(struct rnic *sim, const char *what, const char *word)
{
	u32 ms, *target = !strcmp(what, "hwstats") ? &sim->hang_hw_ms :
			  !strcmp(what, "ethtool") ? &sim->hang_eth_ms : NULL;
	int err = kstrtou32(word, 10, &ms);

	if (!target || err)
		return -EINVAL;
	WRITE_ONCE(*target, ms);
	wake_up_all(&sim->wait);
	rnic_drop_cache(sim);
	return 0;
}

static int do_errno(struct rnic *sim, char *file, const char *word)
{
	char *colon = strchr(file, ':');
	const char *name = colon ? colon + 1 : file;
	int i, value, err = parse_errno(word, &value);
	bool hw = true, port = true;

	if (err)
		return err;
	if (!strcmp(file, "hw_counters")) {
		sim->all_hw_errno = value;
	} else if (!strcmp(file, "counters")) {
		sim->all_port_errno = value;
	} else if (!strcmp(file, "ethtool")) {
		sim->all_eth_errno = value;
	} else {
		if (colon) {
			*colon = 0;
			hw = !strcmp(file, "hw");
			port = !strcmp(file, "port");
		}
		if (hw && (i = rnic_hw_index(name)) >= 0)
			sim->hw_errno[i] = value;
		else if (hw && (i = rnic_vport_index(name)) >= 0)
			sim->vport_errno[i] = value;
		else if (port && (i = list_index(rnic_port_names, RNIC_MAX_PORT, name)) >= 0)
			sim->port_errno[i] = value;
		else
			return -ENOENT;
	}
	sim->any_hw_errno = memchr_inv(sim->hw_errno, 0, sizeof(sim->hw_errno)) ||
			    memchr_inv(sim->vport_errno, 0, sizeof(sim->vport_errno));
	rnic_drop_cache(sim);
	return 0;
}

static int do_link(struct rnic *sim, const char *word, const char *extra)
{
	bool up = sim->link_up;
	u32 rate, ext = sim->ext_state;
	int err = 0;

	if (!strcmp(word, "up")) {
		up = true;
	} else if (!strcmp(word, "down")) {
		up = false;
		if (extra)
			err = kstrtou32(extra, 10, &ext);
	} else {
		err = kstrtou32(word, 10, &rate);
		if (!err && (!rate || rate > 800))
			err = -EINVAL;
		up = true;
	}
	if (err)
		return err;
	rtnl_lock();
	if (!strcmp(word, "up") || !strcmp(word, "down")) {
		sim->link_up = up;
		sim->ext_state = ext;
	} else {
		sim->link_up = true;
		sim->speed = rate * 1000;
	}
	if (sim->ndev)
		rnic_netdev_apply_link(sim);
	rtnl_unlock();
	return 0;
}

static int do_log(struct rnic *sim, const char *word)
{
	static const char *const modes[] = { "off", "errors", "down" };
	int i = list_index(modes, ARRAY_SIZE(modes), word);

	if (i < 0)
		return -EINVAL;
	sim->log = i;
	return 0;
}

static int do_names(struct rnic *sim, const char *word)
{
	if (strcmp(word, "all") && strcmp(word, "real"))
		return -EINVAL;
	/* The string list may not change between a count and its strings. */
	rtnl_lock();
	sim->real_names = !strcmp(word, "real");
	rtnl_unlock();
	return 0;
}

static int do_pcie(struct rnic *sim, const char *what, const char *word)
{
	u32 value;
	int err = kstrtou32(word, 10, &value);

	return err ? err : rnic_pcie_set(sim, what, value);
}

static int run(int argc, char **argv)
{
	struct rnic *sim;

	if (argc < 2)
		return -EINVAL;
	lockdep_assert_held(&rnic_mutex);
	sim = rnic_find(argv[1]);
	if (!sim)
		return -ENODEV;
	if (!strcmp(argv[0], "set") && argc == 4)
		return do_set(sim, argv[2], argv[3]);
	if (!strcmp(argv[0], "hang") && argc == 4)
		return do_hang(sim, argv[2], argv[3]);
	if (!strcmp(argv[0], "errno") && argc == 4)
		return do_errno(sim, argv[2], argv[3]);
	if (!strcmp(argv[0], "link") && (argc == 3 || argc == 4))
		return do_link(sim, argv[2], argc == 4 ? argv[3] : NULL);
	if (!strcmp(argv[0], "log") && argc == 3)
		return do_log(sim, argv[2]);
	if (!strcmp(argv[0], "names") && argc == 3)
		return do_names(sim, argv[2]);
	if (!strcmp(argv[0], "pcie") && argc == 4)
		return do_pcie(sim, argv[2], argv[3]);
	if (!strcmp(argv[0], "plug") && argc == 2)
		return rnic_plug(sim);
	if (!strcmp(argv[0], "unplug") && argc == 2) {
		if (!sim->ib)
			return -EALREADY;
		rnic_unplug(sim);
		return 0;
	}
	return -EINVAL;
}

static ssize_t control_write(struct file *file, const char __user *data, size_t size, loff_t *pos)
{
	char *argv[6], *text, *next;
	int argc = 0, err;

	if (size > 512)
		return -E2BIG;
	text = memdup_user_nul(data, size);
	if (IS_ERR(text))
		return PTR_ERR(text);
	next = strim(text);
	while (next && *next && argc < ARRAY_SIZE(argv)) {
		argv[argc++] = strsep(&next, " \t\n");
		if (next)
			next = skip_spaces(next);
	}
	err = next && *next ? -EINVAL : mutex_lock_interruptible(&rnic_mutex);
	if (!err) {
		err = run(argc, argv);
		mutex_unlock(&rnic_mutex);
	}
	kfree(text);
	return err ? err : size;
}

static const struct file_operations control_fops = {
	.owner = THIS_MODULE,
	.open = nonseekable_open,
	.write = control_write,
};

static int list_show(struct seq_file *s, void *unused)
{
	struct rnic *sim;

	mutex_lock(&rnic_mutex);
	list_for_each_entry(sim, &rnic_list, list) {
		seq_printf(s, "%s %s %s %s %s link=%s speed=%u hang_hwstats=%u hang_ethtool=%u",
			   sim->name, sim->ib ? dev_name(&sim->ib->ibdev.dev) : "-",
			   sim->ndev ? netdev_name(sim->ndev) : "-",
			   sim->pdev ? pci_name(sim->pdev) : "-", sim->ib ? "plugged" : "unplugged",
			   sim->link_up ? "up" : "down", sim->speed / 1000, sim->hang_hw_ms,
			   sim->hang_eth_ms);
		if (sim->all_hw_errno)
			seq_printf(s, " hw_counters=%s", errno_name(sim->all_hw_errno));
		if (sim->all_port_errno)
			seq_printf(s, " counters=%s", errno_name(sim->all_port_errno));
		if (sim->all_eth_errno)
			seq_printf(s, " ethtool=%s", errno_name(sim->all_eth_errno));
		if (sim->any_hw_errno)
			seq_puts(s, " some_hw_counters=failing");
		seq_putc(s, '\n');
	}
	mutex_unlock(&rnic_mutex);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(list);

static int dump_show(struct seq_file *s, void *unused)
{
	struct rnic *sim;
	const char *name;
	int i;

	mutex_lock(&rnic_mutex);
	list_for_each_entry(sim, &rnic_list, list) {
		name = sim->name;
		for (i = 0; i < rnic_hw_count(); i++)
			seq_printf(s, "%s hw:%s %llu\n", name, rnic_hw_name(i), sim->hw[i]);
		for (i = 0; sim->switchdev && i < rnic_vport_count(); i++)
			seq_printf(s, "%s hw:%s %llu\n", name, rnic_vport_name(i), sim->vport[i]);
		for (i = 0; i < RNIC_MAX_PORT; i++)
			seq_printf(s, "%s port:%s %llu\n", name, rnic_port_names[i], sim->port[i]);
		for (i = 0; i < rnic_eth_count(); i++)
			seq_printf(s, "%s ethtool:%s %llu\n", name, rnic_eth_name(i), sim->eth[i]);
		for (i = 0; i < RNIC_MAX_FEC; i++)
			seq_printf(s, "%s fec:%s %llu\n", name, rnic_fec_names[i], sim->fec[i]);
		for (i = 0; i < RNIC_MAX_NETDEV; i++)
			seq_printf(s, "%s netdev:%s %llu\n", name, rnic_netdev_names[i],
				   sim->netdev[i]);
	}
	mutex_unlock(&rnic_mutex);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(dump);

int rnic_control_init(void)
{
	control_dir = debugfs_create_dir("rnic", NULL);
	if (IS_ERR(control_dir))
		return PTR_ERR(control_dir);
	debugfs_create_file("control", 0200, control_dir, NULL, &control_fops);
	debugfs_create_file("list", 0400, control_dir, NULL, &list_fops);
	debugfs_create_file("dump", 0400, control_dir, NULL, &dump_fops);
	return 0;
}

void rnic_control_exit(void)
{
	debugfs_remove(control_dir);
}

/* What the real driver shows of congestion control, root only. */
static const struct {
	const char *name;
	u32 value;
} cc_params[] = {
	{ "rp_clamp_tgt_rate", 0 }, { "rp_clamp_tgt_rate_ati", 1 }, { "rp_time_reset", 300 },
	{ "rp_byte_reset", 32767 }, { "rp_threshold", 1 }, { "rp_ai_rate", 5 },
	{ "rp_max_rate", 0 }, { "rp_hai_rate", 50 }, { "rp_min_dec_fac", 50 },
	{ "rp_min_rate", 1 }, { "rp_rate_to_set_on_first_cnp", 0 }, { "rp_dce_tcp_g", 1019 },
	{ "rp_dce_tcp_rtt", 1 }, { "rp_rate_reduce_monitor_period", 4 },
	{ "rp_initial_alpha_value", 1023 }, { "rp_gd", 11 }, { "np_min_time_between_cnps", 4 },
	{ "np_cnp_dscp", 48 }, { "np_cnp_prio_mode", 1 }, { "np_cnp_prio", 6 },
	{ "rtt_resp_dscp_valid", 0 }, { "rtt_resp_dscp", 0 },
};

void rnic_cc_init(struct rnic *sim)
{
	struct dentry *dir;
	int i;

	BUILD_BUG_ON(ARRAY_SIZE(cc_params) > ARRAY_SIZE(sim->cc_params));
	sim->cc_dir = debugfs_create_dir(pci_name(sim->pdev), rnic_mlx5_dir);
	dir = debugfs_create_dir("cc_params", sim->cc_dir);
	for (i = 0; i < ARRAY_SIZE(cc_params); i++) {
		sim->cc_params[i] = cc_params[i].value;
		debugfs_create_u32(cc_params[i].name, 0600, dir, &sim->cc_params[i]);
	}
}

void rnic_cc_exit(struct rnic *sim)
{
	debugfs_remove(sim->cc_dir);
}
