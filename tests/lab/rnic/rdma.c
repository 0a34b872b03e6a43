// SPDX-License-Identifier: GPL-2.0-only
/* Simulated ConnectX-class RNIC: the RDMA device, its counters and port state. */
#include <linux/etherdevice.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_pma.h>

#include "rnic.h"

/* Counters */

#if RNIC_KERNEL_6_12
#define FROM_6_12(name) { #name },
#define FROM_6_12_VPORT(name) { "vport_" #name },
#else
#define FROM_6_12(name)
#define FROM_6_12_VPORT(name)
#endif

#define Q_COUNTERS(X, X612)         \
	X(rx_write_requests)            \
	X(rx_read_requests)             \
	X(rx_atomic_requests)           \
	X612(rx_dct_connect)            \
	X(out_of_buffer)                \
	X(out_of_sequence)              \
	X(duplicate_request)            \
	X(rnr_nak_retry_err)            \
	X(packet_seq_err)               \
	X(implied_nak_seq_err)          \
	X(local_ack_timeout_err)        \
	X(resp_local_length_error)      \
	X(resp_cqe_error)               \
	X(req_cqe_error)                \
	X(req_remote_invalid_request)   \
	X(req_remote_access_errors)     \
	X(resp_remote_access_errors)    \
	X(resp_cqe_flush_error)         \
	X(req_cqe_flush_error)          \
	X612(req_transport_retries_exceeded) \
	X612(req_rnr_retries_exceeded)  \
	X(roce_adp_retrans)             \
	X(roce_adp_retrans_to)          \
	X(roce_slow_restart)            \
	X(roce_slow_restart_cnps)       \
	X(roce_slow_restart_trans)

#define PLAIN(name) { #name },
#define VPORT(name) { "vport_" #name },
#define OPTIONAL(name) { #name, IB_STAT_FLAG_OPTIONAL },

static const struct rdma_stat_desc hw_descs[] = {
	Q_COUNTERS(PLAIN, FROM_6_12)
	PLAIN(rp_cnp_ignored)
	PLAIN(rp_cnp_handled)
	PLAIN(np_ecn_marked_roce_packets)
	PLAIN(np_cnp_sent)
	PLAIN(rx_icrc_encapsulated)
	OPTIONAL(cc_rx_ce_pkts)
	OPTIONAL(cc_rx_cnp_pkts)
	OPTIONAL(cc_tx_cnp_pkts)
	/* Kernels after these two have them; shown with traffic_counters=1. */
	OPTIONAL(rdma_tx_packets)
	OPTIONAL(rdma_tx_bytes)
	OPTIONAL(rdma_rx_packets)
	OPTIONAL(rdma_rx_bytes)
};

static const struct rdma_stat_desc vport_descs[] = {
	Q_COUNTERS(VPORT, FROM_6_12_VPORT)
};

static_assert(ARRAY_SIZE(hw_descs) <= RNIC_MAX_HW);
static_assert(ARRAY_SIZE(vport_descs) <= RNIC_MAX_VPORT);

static bool traffic_counters;
module_param(traffic_counters, bool, 0444);
MODULE_PARM_DESC(traffic_counters, "offer the optional rdma_tx_packets and its kin of newer kernels too");

static unsigned int gids = 255;
module_param(gids, uint, 0444);
MODULE_PARM_DESC(gids, "entries of the GID table of a PCI function");

static unsigned int count_gids = 16;
module_param(count_gids, uint, 0444);
MODULE_PARM_DESC(count_gids, "entries of the GID table of an extra device");

static bool count_mad = true;
module_param(count_mad, bool, 0444);
MODULE_PARM_DESC(count_mad, "extra devices have the MAD and CM layers on them too");

int rnic_hw_count(void)
{
	return ARRAY_SIZE(hw_descs) - (traffic_counters ? 0 : 4);
}

int rnic_vport_count(void)
{
	return ARRAY_SIZE(vport_descs);
}

const char *rnic_hw_name(int i)
{
	return hw_descs[i].name;
}

const char *rnic_vport_name(int i)
{
	return vport_descs[i].name;
}

int rnic_hw_index(const char *name)
{
	int i;

	for (i = 0; i < rnic_hw_count(); i++)
		if (!strcmp(hw_descs[i].name, name))
			return i;
	return -ENOENT;
}

int rnic_vport_index(const char *name)
{
	int i;

	for (i = 0; i < rnic_vport_count(); i++)
		if (!strcmp(vport_descs[i].name, name))
			return i;
	return -ENOENT;
}

const char *const rnic_port_names[RNIC_MAX_PORT] = {
#define NAME(name, width) #name,
	RNIC_PORT_COUNTERS(NAME)
#undef NAME
};

static const u8 port_widths[RNIC_MAX_PORT] = {
#define WIDTH(name, width) width,
	RNIC_PORT_COUNTERS(WIDTH)
#undef WIDTH
};

static struct rnic *to_sim(struct ib_device *ibdev)
{
	return container_of(ibdev, struct rnic_ib, ibdev)->sim;
}

/* So that a value just set is read at once, not after the core's lifespan. */
static void expire(struct rdma_hw_stats *stats)
{
	if (stats)
		WRITE_ONCE(stats->timestamp, jiffies - stats->lifespan - 1);
}

void rnic_drop_cache(struct rnic *sim)
{
	expire(sim->port_stats);
	expire(sim->dev_stats);
}

static struct rdma_hw_stats *alloc_full_stats(void)
{
	struct rdma_hw_stats *stats;
	int i, n = rnic_hw_count();

	stats = rdma_alloc_hw_stats_struct(hw_descs, n, RDMA_HW_STATS_DEFAULT_LIFESPAN);
	for (i = 0; stats && i < n; i++)
		if (hw_descs[i].flags & IB_STAT_FLAG_OPTIONAL)
			set_bit(i, stats->is_disabled);
	return stats;
}

static struct rdma_hw_stats *rnic_alloc_hw_port_stats(struct ib_device *ibdev, u32 port)
{
	struct rnic *sim = to_sim(ibdev);

	sim->port_stats = sim->switchdev ?
		rdma_alloc_hw_stats_struct(vport_descs, rnic_vport_count(),
					   RDMA_HW_STATS_DEFAULT_LIFESPAN) :
		alloc_full_stats();
	return sim->port_stats;
}

static struct rdma_hw_stats *rnic_alloc_hw_device_stats(struct ib_device *ibdev)
{
	struct rnic *sim = to_sim(ibdev);

	sim->dev_stats = alloc_full_stats();
	return sim->dev_stats;
}

static int rnic_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats, u32 port,
			     int index)
{
	struct rnic *sim = to_sim(ibdev);
	bool vport = sim->switchdev && port;
	const u64 *values = vport ? sim->vport : sim->hw;
	const int *errors = vport ? sim->vport_errno : sim->hw_errno;
	int i, err, plain = 0;

	if (!stats || index < 0 || index > stats->num_counters)
		return -EINVAL;
	err = rnic_hang(sim, &sim->hang_hw_ms);
	if (err)
		return err;
	if (sim->live) {
		err = sim->all_hw_errno;
		if (!err && index < stats->num_counters)
			err = errors[index];
		rnic_log_query(sim, "QUERY_Q_COUNTER(0x773)", -err);
		if (err)
			return -err;
	}
	for (i = 0; i < stats->num_counters; i++) {
		stats->value[i] = READ_ONCE(values[i]);
		if (!(stats->descs[i].flags & IB_STAT_FLAG_OPTIONAL))
			plain++;
	}
	/*
	 * As the real driver: only the first index and 'all' claim to have
	 * refreshed everything where there are optional counters, so only
	 * they renew the core's cache.
	 */
	if (index && index < stats->num_counters)
		return plain;
	/*
	 * A counter that fails by itself must fail on its next read too, not
	 * come from the cache. The core takes 'not all' as 'do not cache';
	 * netlink then leaves out the last one, which is an optional counter
	 * that is off.
	 */
	if (index == 0 && sim->live && sim->any_hw_errno && plain < stats->num_counters &&
	    test_bit(stats->num_counters - 1, stats->is_disabled))
		return stats->num_counters - 1;
	return stats->num_counters;
}

static int rnic_modify_hw_stat(struct ib_device *ibdev, u32 port, unsigned int index, bool enable)
{
	struct rnic *sim = to_sim(ibdev);

	/* Steering rules of the whole device: not possible in switchdev mode. */
	if (sim->switchdev || index >= rnic_hw_count() ||
	    !(hw_descs[index].flags & IB_STAT_FLAG_OPTIONAL))
		return -EOPNOTSUPP;
	/* A new rule starts to count from zero. */
	if (enable)
		WRITE_ONCE(sim->hw[index], 0);
	return 0;
}

/* The value as the field shows it: an InfiniBand counter sticks at its top. */
static u64 port_value(struct rnic *sim, enum rnic_port_counter i)
{
	u64 value = READ_ONCE(sim->port[i]);

	return port_widths[i] < 64 ? min(value, BIT_ULL(port_widths[i]) - 1) : value;
}

static int pma_reply(struct rnic *sim, const struct ib_mad *in, struct ib_mad *out)
{
	void *data = out->data + 40;
	int i, err, first, last;

#define V(name) port_value(sim, RNIC_PORT_##name)
	if (in->mad_hdr.attr_id == IB_PMA_CLASS_PORT_INFO) {
		struct ib_class_port_info info = { .capability_mask = IB_PMA_CLASS_CAP_EXT_WIDTH };

		memcpy(data, &info, sizeof(info));
		return IB_MAD_RESULT_SUCCESS | IB_MAD_RESULT_REPLY;
	}
	if (in->mad_hdr.attr_id != IB_PMA_PORT_COUNTERS &&
	    in->mad_hdr.attr_id != IB_PMA_PORT_COUNTERS_EXT)
		return IB_MAD_RESULT_FAILURE;

	/* One attribute carries many counters, so an error of one is one of all in it. */
	first = in->mad_hdr.attr_id == IB_PMA_PORT_COUNTERS ? 0 : RNIC_PORT_FIRST_EXT;
	last = in->mad_hdr.attr_id == IB_PMA_PORT_COUNTERS ? RNIC_PORT_FIRST_EXT : RNIC_MAX_PORT;
	err = rnic_hang(sim, &sim->hang_hw_ms);
	if (!err)
		err = -sim->all_port_errno;
	for (i = first; i < last && !err; i++)
		err = -sim->port_errno[i];
	rnic_log_query(sim, "ACCESS_REG(0x805)", err);
	if (err)
		return IB_MAD_RESULT_FAILURE;

	if (in->mad_hdr.attr_id == IB_PMA_PORT_COUNTERS) {
		struct ib_pma_portcounters pc = {
			.symbol_error_counter = cpu_to_be16(V(symbol_error)),
			.link_error_recovery_counter = V(link_error_recovery),
			.link_downed_counter = V(link_downed),
			.port_rcv_errors = cpu_to_be16(V(port_rcv_errors)),
			.port_rcv_remphys_errors = cpu_to_be16(V(port_rcv_remote_physical_errors)),
			.port_rcv_switch_relay_errors =
				cpu_to_be16(V(port_rcv_switch_relay_errors)),
			.port_xmit_discards = cpu_to_be16(V(port_xmit_discards)),
			.port_xmit_constraint_errors = V(port_xmit_constraint_errors),
			.port_rcv_constraint_errors = V(port_rcv_constraint_errors),
			.link_overrun_errors = V(local_link_integrity_errors) << 4 |
					       V(excessive_buffer_overrun_errors),
			.vl15_dropped = cpu_to_be16(V(VL15_dropped)),
			.port_xmit_wait = cpu_to_be32(V(port_xmit_wait)),
		};

		memcpy(data, &pc, sizeof(pc));
	} else {
		struct ib_pma_portcounters_ext pc = {
			.port_xmit_data = cpu_to_be64(V(port_xmit_data)),
			.port_rcv_data = cpu_to_be64(V(port_rcv_data)),
			.port_xmit_packets = cpu_to_be64(V(port_xmit_packets)),
			.port_rcv_packets = cpu_to_be64(V(port_rcv_packets)),
			.port_unicast_xmit_packets = cpu_to_be64(V(unicast_xmit_packets)),
			.port_unicast_rcv_packets = cpu_to_be64(V(unicast_rcv_packets)),
			.port_multicast_xmit_packets = cpu_to_be64(V(multicast_xmit_packets)),
			.port_multicast_rcv_packets = cpu_to_be64(V(multicast_rcv_packets)),
		};

		memcpy(data, &pc, sizeof(pc));
	}
#undef V
	return IB_MAD_RESULT_SUCCESS | IB_MAD_RESULT_REPLY;
}

static int rnic_process_mad(struct ib_device *ibdev, int flags, u32 port, const struct ib_wc *wc,
			    const struct ib_grh *grh, const struct ib_mad *in, struct ib_mad *out,
			    size_t *out_size, u16 *out_pkey_index)
{
	if (in->mad_hdr.mgmt_class != IB_MGMT_CLASS_PERF_MGMT ||
	    in->mad_hdr.method != IB_MGMT_METHOD_GET)
		return IB_MAD_RESULT_SUCCESS;
	return pma_reply(to_sim(ibdev), in, out);
}

/* Device and port */

static int rnic_query_device(struct ib_device *ibdev, struct ib_device_attr *attr,
			     struct ib_udata *udata)
{
	if (udata->inlen || udata->outlen)
		return -EINVAL;
	attr->fw_ver = (u64)RNIC_FW_MAJOR << 32 | RNIC_FW_MINOR << 16 | RNIC_FW_SUB;
	attr->sys_image_guid = ibdev->node_guid;
	attr->vendor_id = 0x02c9;
	attr->vendor_part_id = RNIC_PCI_DEVICE;
	attr->max_mr_size = ~0ull;
	attr->page_size_cap = 0xfffff000;
	attr->max_qp = 131072;
	attr->max_qp_wr = 32768;
	attr->device_cap_flags = IB_DEVICE_CHANGE_PHY_PORT | IB_DEVICE_PORT_ACTIVE_EVENT |
				 IB_DEVICE_SYS_IMAGE_GUID | IB_DEVICE_RC_RNR_NAK_GEN |
				 IB_DEVICE_MEM_MGT_EXTENSIONS;
	attr->kernel_cap_flags = IBK_LOCAL_DMA_LKEY;
	attr->max_send_sge = 30;
	attr->max_recv_sge = 32;
	attr->max_sge_rd = 30;
	attr->max_cq = 16777216;
	attr->max_cqe = 4194303;
	attr->max_mr = 16777216;
	attr->max_pd = 8388608;
	attr->max_qp_rd_atom = 16;
	attr->max_res_rd_atom = 2097152;
	attr->max_qp_init_rd_atom = 16;
	attr->atomic_cap = IB_ATOMIC_HCA;
	attr->max_mw = 16777216;
	attr->max_mcast_grp = 2097152;
	attr->max_mcast_qp_attach = 240;
	attr->max_total_mcast_qp_attach = 503316480;
	attr->max_ah = INT_MAX;
	attr->max_srq = 8388608;
	attr->max_srq_wr = 32767;
	attr->max_srq_sge = 31;
	attr->max_fast_reg_page_list_len = 65536;
	attr->max_pkeys = 128;
	attr->local_ca_ack_delay = 16;
	return 0;
}

static void port_speed(u32 speed, struct ib_port_attr *attr)
{
	static const struct {
		u32 speed;
		u8 width;
		u16 rate;
	} map[] = {
		{ SPEED_1000, IB_WIDTH_1X, IB_SPEED_SDR },
		{ SPEED_10000, IB_WIDTH_1X, IB_SPEED_QDR },
		{ SPEED_25000, IB_WIDTH_1X, IB_SPEED_EDR },
		{ SPEED_40000, IB_WIDTH_4X, IB_SPEED_QDR },
		{ SPEED_50000, IB_WIDTH_2X, IB_SPEED_EDR },
		{ SPEED_100000, IB_WIDTH_4X, IB_SPEED_EDR },
		{ SPEED_200000, IB_WIDTH_4X, IB_SPEED_HDR },
		{ SPEED_400000, IB_WIDTH_4X, IB_SPEED_NDR },
		{ 800000, IB_WIDTH_8X, IB_SPEED_NDR },
	};
	int i;

	/* What the real driver answers when the operational speed is unknown, as on a down port. */
	attr->active_width = IB_WIDTH_4X;
	attr->active_speed = IB_SPEED_QDR;
	for (i = 0; i < ARRAY_SIZE(map); i++)
		if (map[i].speed == speed) {
			attr->active_width = map[i].width;
			attr->active_speed = map[i].rate;
		}
}

static int rnic_query_port(struct ib_device *ibdev, u32 port, struct ib_port_attr *attr)
{
	struct rnic *sim = to_sim(ibdev);
	struct net_device *ndev = sim->ndev;
	bool up = netif_running(ndev) && netif_carrier_ok(ndev);

	rnic_log_query(sim, "ACCESS_REG(0x805)", 0);
	attr->state = up ? IB_PORT_ACTIVE : IB_PORT_DOWN;
	attr->phys_state = up ? IB_PORT_PHYS_STATE_LINK_UP : IB_PORT_PHYS_STATE_DISABLED;
	attr->max_mtu = IB_MTU_4096;
	attr->active_mtu = min(attr->max_mtu, iboe_get_mtu(READ_ONCE(ndev->mtu)));
	attr->gid_tbl_len = sim->pdev ? gids : count_gids;
	attr->port_cap_flags = IB_PORT_CM_SUP;
	attr->ip_gids = true;
	attr->max_msg_sz = 1 << 30;
	attr->pkey_tbl_len = 1;
	attr->max_vl_num = 1;
	port_speed(up ? READ_ONCE(sim->speed) : 0, attr);
	return 0;
}

static int rnic_port_immutable(struct ib_device *ibdev, u32 port, struct ib_port_immutable *imm)
{
	struct rnic *sim = to_sim(ibdev);

	imm->gid_tbl_len = sim->pdev ? gids : count_gids;
	imm->pkey_tbl_len = 1;
	imm->core_cap_flags = RDMA_CORE_PORT_IBA_ROCE | RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP;
	imm->max_mad_size = IB_MGMT_MAD_SIZE;
	if (!sim->pdev && !count_mad) {
		imm->core_cap_flags &= ~(RDMA_CORE_CAP_IB_MAD | RDMA_CORE_CAP_IB_CM);
		imm->max_mad_size = 0;
	}
	return 0;
}

static enum rdma_link_layer rnic_link_layer(struct ib_device *ibdev, u32 port)
{
	return IB_LINK_LAYER_ETHERNET;
}

static int rnic_add_gid(const struct ib_gid_attr *attr, void **context)
{
	return 0;
}

static int rnic_del_gid(const struct ib_gid_attr *attr, void **context)
{
	return 0;
}

static int rnic_query_pkey(struct ib_device *ibdev, u32 port, u16 index, u16 *pkey)
{
	if (index)
		return -EINVAL;
	*pkey = IB_DEFAULT_PKEY_FULL;
	return 0;
}

static void rnic_fw_str(struct ib_device *ibdev, char *str)
{
	snprintf(str, IB_FW_VERSION_NAME_MAX, "%d.%d.%04d", RNIC_FW_MAJOR, RNIC_FW_MINOR,
		 RNIC_FW_SUB);
}

static ssize_t hw_rev_show(struct device *device, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "0\n");
}
static DEVICE_ATTR_RO(hw_rev);

static ssize_t hca_type_show(struct device *device, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "MT%d\n", RNIC_PCI_DEVICE);
}
static DEVICE_ATTR_RO(hca_type);

static ssize_t board_id_show(struct device *device, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, RNIC_BOARD_ID "\n");
}
static DEVICE_ATTR_RO(board_id);

static ssize_t fw_pages_show(struct device *device, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "26272\n");
}
static DEVICE_ATTR_RO(fw_pages);

static ssize_t reg_pages_show(struct device *device, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "0\n");
}
static DEVICE_ATTR_RO(reg_pages);

static struct attribute *device_attrs[] = {
	&dev_attr_hw_rev.attr,	 &dev_attr_hca_type.attr,  &dev_attr_board_id.attr,
	&dev_attr_fw_pages.attr, &dev_attr_reg_pages.attr, NULL,
};

static const struct attribute_group device_group = { .attrs = device_attrs };

static const struct ib_device_ops rnic_ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_MLX5,
	.uverbs_abi_ver = 1,
	.device_group = &device_group,

	.add_gid = rnic_add_gid,
	.del_gid = rnic_del_gid,
	.get_dev_fw_str = rnic_fw_str,
	.get_hw_stats = rnic_get_hw_stats,
	.get_link_layer = rnic_link_layer,
	.get_port_immutable = rnic_port_immutable,
	.process_mad = rnic_process_mad,
	.query_device = rnic_query_device,
	.query_pkey = rnic_query_pkey,
	.query_port = rnic_query_port,
};

static const struct ib_device_ops port_stats_ops = {
	.alloc_hw_port_stats = rnic_alloc_hw_port_stats,
	.modify_hw_stat = rnic_modify_hw_stat,
};

/* In switchdev mode the counters move to the device; newer drivers leave vport ones on the port. */
static const struct ib_device_ops switchdev_stats_ops = {
	.alloc_hw_device_stats = rnic_alloc_hw_device_stats,
#if RNIC_KERNEL_6_12
	.alloc_hw_port_stats = rnic_alloc_hw_port_stats,
#endif
};

int rnic_ib_register(struct rnic *sim, u64 guid)
{
	struct rnic_ib *ib = ib_alloc_device(rnic_ib, ibdev);
	int err;

	if (!ib)
		return -ENOMEM;
	ib->sim = sim;
	ib->ibdev.node_type = RDMA_NODE_IB_CA;
	ib->ibdev.phys_port_cnt = 1;
	ib->ibdev.num_comp_vectors = RNIC_CHANNELS;
	ib->ibdev.dev.parent = sim->pdev ? &sim->pdev->dev : NULL;
	ib->ibdev.node_guid = cpu_to_be64(guid);
	snprintf(ib->ibdev.node_desc, sizeof(ib->ibdev.node_desc),
		 "MT%d ConnectX-7 simulated", RNIC_PCI_DEVICE);
	ib_set_device_ops(&ib->ibdev, &rnic_ops);
	ib_set_device_ops(&ib->ibdev, &rnic_object_ops);
	ib_set_device_ops(&ib->ibdev, sim->switchdev ? &switchdev_stats_ops : &port_stats_ops);

	err = ib_device_set_netdev(&ib->ibdev, sim->ndev, 1);
	if (err)
		goto fail;
	err = ib_register_device(&ib->ibdev, sim->name, NULL);
	if (err)
		goto fail;
	sim->ib = ib;
	return 0;

fail:
	sim->port_stats = NULL;
	sim->dev_stats = NULL;
	ib_dealloc_device(&ib->ibdev);
	return err;
}

void rnic_ib_unregister(struct rnic *sim)
{
	struct rnic_ib *ib = sim->ib;

	/* The core frees the counters with the device. */
	sim->port_stats = NULL;
	sim->dev_stats = NULL;
	sim->ib = NULL;
	ib_unregister_device(&ib->ibdev);
	ib_dealloc_device(&ib->ibdev);
}
