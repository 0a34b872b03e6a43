// SPDX-License-Identifier: GPL-2.0-only
/* Simulated ConnectX-class RNIC: the netdev and what ethtool reads from it. */
#include <linux/etherdevice.h>
#include <linux/rtnetlink.h>

#include "rnic.h"

enum show { SHOW_ALWAYS, SHOW_PFC, SHOW_GLOBAL };

/*
 * Names of `ethtool -S`, in the real driver's order. "%p" stands for each of
 * the eight priorities, "%l" for a lane, "%q" for a channel.
 */
static const struct {
	const char *name;
	enum show show;
} templates[] = {
	{ "rx_packets" }, { "rx_bytes" }, { "tx_packets" }, { "tx_bytes" },
	{ "rx_ecn_mark" }, { "rx_csum_unnecessary" }, { "rx_csum_none" }, { "tx_csum_none" },
	{ "tx_queue_stopped" }, { "tx_queue_dropped" }, { "tx_recover" }, { "tx_queue_wake" },
	{ "rx_wqe_err" }, { "rx_buff_alloc_err" }, { "ch_poll" }, { "ch_arm" }, { "link_down_events" },

	{ "rx_out_of_buffer" }, { "rx_if_down_packets" },
	{ "rx_steer_missed_packets" }, { "dev_internal_queue_oob" }, { "rx_oversize_pkts_buffer" },

	{ "rx_vport_unicast_packets" }, { "rx_vport_unicast_bytes" },
	{ "tx_vport_unicast_packets" }, { "tx_vport_unicast_bytes" },
	{ "rx_vport_multicast_packets" }, { "rx_vport_multicast_bytes" },
	{ "tx_vport_multicast_packets" }, { "tx_vport_multicast_bytes" },
	{ "rx_vport_broadcast_packets" }, { "rx_vport_broadcast_bytes" },
	{ "tx_vport_broadcast_packets" }, { "tx_vport_broadcast_bytes" },
	{ "rx_vport_rdma_unicast_packets" }, { "rx_vport_rdma_unicast_bytes" },
	{ "tx_vport_rdma_unicast_packets" }, { "tx_vport_rdma_unicast_bytes" },
	{ "rx_vport_rdma_multicast_packets" }, { "rx_vport_rdma_multicast_bytes" },
	{ "tx_vport_rdma_multicast_packets" }, { "tx_vport_rdma_multicast_bytes" },
	{ "vport_loopback_packets" }, { "vport_loopback_bytes" },

	{ "tx_packets_phy" }, { "rx_packets_phy" }, { "rx_crc_errors_phy" },
	{ "tx_bytes_phy" }, { "rx_bytes_phy" }, { "tx_multicast_phy" }, { "tx_broadcast_phy" },
	{ "rx_multicast_phy" }, { "rx_broadcast_phy" }, { "rx_in_range_len_errors_phy" },
	{ "rx_out_of_range_len_phy" }, { "rx_oversize_pkts_phy" }, { "rx_symbol_err_phy" },
	{ "tx_mac_control_phy" }, { "rx_mac_control_phy" }, { "rx_unsupported_op_phy" },
	{ "rx_pause_ctrl_phy" }, { "tx_pause_ctrl_phy" },
	{ "rx_discards_phy" }, { "tx_discards_phy" }, { "tx_errors_phy" },
	{ "rx_undersize_pkts_phy" }, { "rx_fragments_phy" }, { "rx_jabbers_phy" },
	{ "rx_64_bytes_phy" }, { "rx_65_to_127_bytes_phy" }, { "rx_128_to_255_bytes_phy" },
	{ "rx_256_to_511_bytes_phy" }, { "rx_512_to_1023_bytes_phy" },
	{ "rx_1024_to_1518_bytes_phy" }, { "rx_1519_to_2047_bytes_phy" },
	{ "rx_2048_to_4095_bytes_phy" }, { "rx_4096_to_8191_bytes_phy" },
	{ "rx_8192_to_10239_bytes_phy" },
	{ "link_down_events_phy" }, { "rx_bits_phy" }, { "rx_pcs_symbol_err_phy" },
	{ "rx_corrected_bits_phy" }, { "rx_err_lane_%l_phy" }, { "rx_buffer_passed_thres_phy" },

	{ "rx_pci_signal_integrity" }, { "tx_pci_signal_integrity" },
	{ "outbound_pci_buffer_overflow" }, { "outbound_pci_stalled_rd" },
	{ "outbound_pci_stalled_wr" }, { "outbound_pci_stalled_rd_events" },
	{ "outbound_pci_stalled_wr_events" },

	{ "rx_prio%p_bytes" }, { "rx_prio%p_packets" }, { "rx_prio%p_discards" },
	{ "tx_prio%p_bytes" }, { "tx_prio%p_packets" },
	{ "rx_prio%p_pause", SHOW_PFC }, { "rx_prio%p_pause_duration", SHOW_PFC },
	{ "tx_prio%p_pause", SHOW_PFC }, { "tx_prio%p_pause_duration", SHOW_PFC },
	{ "rx_prio%p_pause_transition", SHOW_PFC },
	{ "rx_global_pause", SHOW_GLOBAL }, { "rx_global_pause_duration", SHOW_GLOBAL },
	{ "tx_global_pause", SHOW_GLOBAL }, { "tx_global_pause_duration", SHOW_GLOBAL },
	{ "rx_global_pause_transition", SHOW_GLOBAL },
	{ "tx_pause_storm_warning_events" }, { "tx_pause_storm_error_events" },
	{ "module_unplug" }, { "module_bus_stuck" }, { "module_high_temp" }, { "module_bad_shorted" },
	{ "rx_prio%p_buf_discard" }, { "rx_prio%p_cong_discard" }, { "rx_prio%p_marked" },

	{ "ch%q_poll" }, { "ch%q_arm" },
	{ "rx%q_packets" }, { "rx%q_bytes" }, { "rx%q_wqe_err" }, { "rx%q_ecn_mark" },
	{ "tx%q_packets" }, { "tx%q_bytes" }, { "tx%q_dropped" }, { "tx%q_stopped" },
};

static struct {
	char name[ETH_GSTRING_LEN];
	enum show show;
	u8 prio;
} names[RNIC_MAX_ETH];
static int name_count;

static int tx_pause_index[8], rx_pause_index[8];

#define STAT(sim, name)                              \
	({                                               \
		static int index = -1;                       \
		if (index < 0)                               \
			index = rnic_eth_index(name);            \
		index < 0 ? 0 : READ_ONCE((sim)->eth[index]); \
	})

const char *const rnic_netdev_names[RNIC_MAX_NETDEV] = {
#define NAME(name) #name,
	RNIC_NETDEV_COUNTERS(NAME)
#undef NAME
};

const char *const rnic_fec_names[RNIC_MAX_FEC] = { "corrected_blocks", "uncorrectable_blocks" };

void rnic_eth_names_init(void)
{
	char name[ETH_GSTRING_LEN];
	int i, k, n;

	for (i = 0; i < ARRAY_SIZE(templates); i++) {
		const char *mark = strchr(templates[i].name, '%');

		n = !mark ? 1 : mark[1] == 'q' ? RNIC_CHANNELS : 8;
		for (k = 0; k < n && name_count < RNIC_MAX_ETH; k++, name_count++) {
			if (mark)
				snprintf(names[name_count].name, ETH_GSTRING_LEN, "%.*s%d%s",
					 (int)(mark - templates[i].name), templates[i].name, k,
					 mark + 2);
			else
				strscpy(names[name_count].name, templates[i].name, ETH_GSTRING_LEN);
			names[name_count].show = templates[i].show;
			names[name_count].prio = k;
		}
	}
	WARN_ON(name_count == RNIC_MAX_ETH);
	for (i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "tx_prio%d_pause", i);
		tx_pause_index[i] = rnic_eth_index(name);
		snprintf(name, sizeof(name), "rx_prio%d_pause", i);
		rx_pause_index[i] = rnic_eth_index(name);
	}
}

int rnic_eth_count(void)
{
	return name_count;
}

const char *rnic_eth_name(int i)
{
	return names[i].name;
}

int rnic_eth_index(const char *name)
{
	int i;

	for (i = 0; i < name_count; i++)
		if (!strcmp(names[i].name, name))
			return i;
	return -ENOENT;
}

static struct rnic *to_sim(struct net_device *dev)
{
	return *(struct rnic **)netdev_priv(dev);
}

/* With `names real`, pause names come and go with the configuration, as on the real driver. */
static bool shown(struct rnic *sim, int i)
{
	if (!sim->real_names)
		return true;
	switch (names[i].show) {
	case SHOW_PFC:
		return sim->pfc.pfc_en & BIT(names[i].prio);
	case SHOW_GLOBAL:
		return sim->pause_rx || sim->pause_tx;
	default:
		return true;
	}
}

/* A statistics query: 0, or the error that the caller should answer if it can. */
static int query(struct rnic *sim, const char *what)
{
	int err = rnic_hang(sim, &sim->hang_eth_ms);

	if (!err && READ_ONCE(sim->live))
		err = -sim->all_eth_errno;
	rnic_log_query(sim, what, err);
	return err;
}

static int get_sset_count(struct net_device *dev, int set)
{
	struct rnic *sim = to_sim(dev);
	int i, n = 0;

	if (set != ETH_SS_STATS)
		return -EOPNOTSUPP;
	/* The statistics call itself cannot fail; the kernel asks for the count before it. */
	if (sim->all_eth_errno && READ_ONCE(sim->live))
		return query(sim, "ACCESS_REG(0x805)");
	for (i = 0; i < name_count; i++)
		n += shown(sim, i);
	return n;
}

static void get_strings(struct net_device *dev, u32 set, u8 *data)
{
	struct rnic *sim = to_sim(dev);
	int i;

	if (set != ETH_SS_STATS)
		return;
	for (i = 0; i < name_count; i++)
		if (shown(sim, i)) {
			memcpy(data, names[i].name, ETH_GSTRING_LEN);
			data += ETH_GSTRING_LEN;
		}
}

static void get_ethtool_stats(struct net_device *dev, struct ethtool_stats *stats, u64 *data)
{
	struct rnic *sim = to_sim(dev);
	int i;

	query(sim, "ACCESS_REG(0x805)");
	for (i = 0; i < name_count; i++)
		if (shown(sim, i))
			*data++ = READ_ONCE(sim->eth[i]);
	/* The real driver fills its DCB statistics here only. */
	for (i = 0; i < 8; i++) {
		sim->pfc.requests[i] = READ_ONCE(sim->eth[tx_pause_index[i]]);
		sim->pfc.indications[i] = READ_ONCE(sim->eth[rx_pause_index[i]]);
	}
}

static void get_drvinfo(struct net_device *dev, struct ethtool_drvinfo *info)
{
	struct rnic *sim = to_sim(dev);

	strscpy(info->driver, RNIC_DRIVER, sizeof(info->driver));
	snprintf(info->fw_version, sizeof(info->fw_version), "%d.%d.%04d (%.16s)", RNIC_FW_MAJOR,
		 RNIC_FW_MINOR, RNIC_FW_SUB, RNIC_BOARD_ID);
	if (sim->pdev)
		strscpy(info->bus_info, pci_name(sim->pdev), sizeof(info->bus_info));
}

static int get_link_ksettings(struct net_device *dev, struct ethtool_link_ksettings *ks)
{
	struct rnic *sim = to_sim(dev);

	if (sim->all_eth_errno && READ_ONCE(sim->live))
		return -sim->all_eth_errno;
	ethtool_link_ksettings_zero_link_mode(ks, supported);
	ethtool_link_ksettings_zero_link_mode(ks, advertising);
	ethtool_link_ksettings_add_link_mode(ks, supported, FIBRE);
	ethtool_link_ksettings_add_link_mode(ks, supported, Pause);
	ethtool_link_ksettings_add_link_mode(ks, supported, Autoneg);
	ethtool_link_ksettings_add_link_mode(ks, supported, FEC_RS);
	ethtool_link_ksettings_add_link_mode(ks, supported, 25000baseCR_Full);
	ethtool_link_ksettings_add_link_mode(ks, supported, 100000baseCR4_Full);
	ethtool_link_ksettings_add_link_mode(ks, supported, 200000baseCR4_Full);
	ethtool_link_ksettings_add_link_mode(ks, supported, 400000baseCR4_Full);
	bitmap_copy(ks->link_modes.advertising, ks->link_modes.supported,
		    __ETHTOOL_LINK_MODE_MASK_NBITS);
	ks->base.port = PORT_DA;
	ks->base.autoneg = AUTONEG_ENABLE;
	ks->base.speed = netif_carrier_ok(dev) ? sim->speed : SPEED_UNKNOWN;
	ks->base.duplex = netif_carrier_ok(dev) ? DUPLEX_FULL : DUPLEX_UNKNOWN;
	return 0;
}

static int get_link_ext_state(struct net_device *dev, struct ethtool_link_ext_state_info *info)
{
	if (netif_carrier_ok(dev))
		return -ENODATA;
	info->link_ext_state = to_sim(dev)->ext_state;
	return 0;
}

static void get_pauseparam(struct net_device *dev, struct ethtool_pauseparam *pause)
{
	struct rnic *sim = to_sim(dev);

	pause->rx_pause = sim->pause_rx;
	pause->tx_pause = sim->pause_tx;
}

static int set_pauseparam(struct net_device *dev, struct ethtool_pauseparam *pause)
{
	struct rnic *sim = to_sim(dev);

	if (pause->autoneg || ((pause->rx_pause || pause->tx_pause) && sim->pfc.pfc_en))
		return -EINVAL;
	sim->pause_rx = pause->rx_pause;
	sim->pause_tx = pause->tx_pause;
	return 0;
}

static void get_pause_stats(struct net_device *dev, struct ethtool_pause_stats *stats)
{
	struct rnic *sim = to_sim(dev);

	if (query(sim, "ACCESS_REG(0x805)"))
		return;
	stats->tx_pause_frames = STAT(sim, "tx_pause_ctrl_phy");
	stats->rx_pause_frames = STAT(sim, "rx_pause_ctrl_phy");
}

static int get_fecparam(struct net_device *dev, struct ethtool_fecparam *fec)
{
	struct rnic *sim = to_sim(dev);

	if (sim->all_eth_errno && READ_ONCE(sim->live))
		return -sim->all_eth_errno;
	fec->fec = sim->fec_mode;
	fec->active_fec = sim->fec_mode == ETHTOOL_FEC_AUTO ? ETHTOOL_FEC_RS : sim->fec_mode;
	return 0;
}

static int set_fecparam(struct net_device *dev, struct ethtool_fecparam *fec)
{
	switch (fec->fec) {
	case ETHTOOL_FEC_AUTO:
	case ETHTOOL_FEC_OFF:
	case ETHTOOL_FEC_RS:
	case ETHTOOL_FEC_BASER:
	case ETHTOOL_FEC_LLRS:
		to_sim(dev)->fec_mode = fec->fec;
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}

static void get_fec_stats(struct net_device *dev, struct ethtool_fec_stats *stats)
{
	struct rnic *sim = to_sim(dev);

	if (query(sim, "ACCESS_REG(0x805)") || sim->fec_mode == ETHTOOL_FEC_OFF)
		return;
	stats->corrected_blocks.total = READ_ONCE(sim->fec[RNIC_FEC_corrected_blocks]);
	stats->uncorrectable_blocks.total = READ_ONCE(sim->fec[RNIC_FEC_uncorrectable_blocks]);
	stats->corrected_bits.total = STAT(sim, "rx_corrected_bits_phy");
}

static void get_eth_phy_stats(struct net_device *dev, struct ethtool_eth_phy_stats *stats)
{
	struct rnic *sim = to_sim(dev);

	if (!query(sim, "ACCESS_REG(0x805)"))
		stats->SymbolErrorDuringCarrier = STAT(sim, "rx_symbol_err_phy");
}

static void get_eth_mac_stats(struct net_device *dev, struct ethtool_eth_mac_stats *stats)
{
	struct rnic *sim = to_sim(dev);

	if (query(sim, "ACCESS_REG(0x805)"))
		return;
	stats->FramesTransmittedOK = STAT(sim, "tx_packets_phy");
	stats->FramesReceivedOK = STAT(sim, "rx_packets_phy");
	stats->FrameCheckSequenceErrors = STAT(sim, "rx_crc_errors_phy");
	stats->OctetsTransmittedOK = STAT(sim, "tx_bytes_phy");
	stats->OctetsReceivedOK = STAT(sim, "rx_bytes_phy");
	stats->MulticastFramesXmittedOK = STAT(sim, "tx_multicast_phy");
	stats->BroadcastFramesXmittedOK = STAT(sim, "tx_broadcast_phy");
	stats->MulticastFramesReceivedOK = STAT(sim, "rx_multicast_phy");
	stats->BroadcastFramesReceivedOK = STAT(sim, "rx_broadcast_phy");
	stats->InRangeLengthErrors = STAT(sim, "rx_in_range_len_errors_phy");
	stats->OutOfRangeLengthField = STAT(sim, "rx_out_of_range_len_phy");
	stats->FrameTooLongErrors = STAT(sim, "rx_oversize_pkts_phy");
}

static void get_eth_ctrl_stats(struct net_device *dev, struct ethtool_eth_ctrl_stats *stats)
{
	struct rnic *sim = to_sim(dev);

	if (query(sim, "ACCESS_REG(0x805)"))
		return;
	stats->MACControlFramesTransmitted = STAT(sim, "tx_mac_control_phy");
	stats->MACControlFramesReceived = STAT(sim, "rx_mac_control_phy");
	stats->UnsupportedOpcodesReceived = STAT(sim, "rx_unsupported_op_phy");
}

static const struct ethtool_rmon_hist_range rmon_ranges[] = {
	{ 0, 64 },	{ 65, 127 },	{ 128, 255 },	{ 256, 511 },	{ 512, 1023 },	{ 1024, 1518 },
	{ 1519, 2047 }, { 2048, 4095 }, { 4096, 8191 }, { 8192, 10239 }, {},
};

static void get_rmon_stats(struct net_device *dev, struct ethtool_rmon_stats *stats,
			   const struct ethtool_rmon_hist_range **ranges)
{
	struct rnic *sim = to_sim(dev);

	if (query(sim, "ACCESS_REG(0x805)"))
		return;
	stats->undersize_pkts = STAT(sim, "rx_undersize_pkts_phy");
	stats->oversize_pkts = STAT(sim, "rx_oversize_pkts_phy");
	stats->fragments = STAT(sim, "rx_fragments_phy");
	stats->jabbers = STAT(sim, "rx_jabbers_phy");
	stats->hist[0] = STAT(sim, "rx_64_bytes_phy");
	stats->hist[1] = STAT(sim, "rx_65_to_127_bytes_phy");
	stats->hist[2] = STAT(sim, "rx_128_to_255_bytes_phy");
	stats->hist[3] = STAT(sim, "rx_256_to_511_bytes_phy");
	stats->hist[4] = STAT(sim, "rx_512_to_1023_bytes_phy");
	stats->hist[5] = STAT(sim, "rx_1024_to_1518_bytes_phy");
	stats->hist[6] = STAT(sim, "rx_1519_to_2047_bytes_phy");
	stats->hist[7] = STAT(sim, "rx_2048_to_4095_bytes_phy");
	stats->hist[8] = STAT(sim, "rx_4096_to_8191_bytes_phy");
	stats->hist[9] = STAT(sim, "rx_8192_to_10239_bytes_phy");
	*ranges = rmon_ranges;
}

#if RNIC_KERNEL_6_12
static void get_link_ext_stats(struct net_device *dev, struct ethtool_link_ext_stats *stats)
{
	struct rnic *sim = to_sim(dev);

	if (!query(sim, "ACCESS_REG(0x805)"))
		stats->link_down_events = STAT(sim, "link_down_events_phy");
}
#endif

static void get_channels(struct net_device *dev, struct ethtool_channels *channels)
{
	channels->max_combined = RNIC_CHANNELS;
	channels->combined_count = RNIC_CHANNELS;
}

static void get_ringparam(struct net_device *dev, struct ethtool_ringparam *ring,
			  struct kernel_ethtool_ringparam *kernel_ring,
			  struct netlink_ext_ack *extack)
{
	ring->rx_max_pending = 8192;
	ring->tx_max_pending = 8192;
	ring->rx_pending = 1024;
	ring->tx_pending = 1024;
}

static const struct ethtool_ops ethtool_ops = {
	.get_channels = get_channels,
	.get_drvinfo = get_drvinfo,
	.get_eth_ctrl_stats = get_eth_ctrl_stats,
	.get_eth_mac_stats = get_eth_mac_stats,
	.get_eth_phy_stats = get_eth_phy_stats,
	.get_ethtool_stats = get_ethtool_stats,
	.get_fec_stats = get_fec_stats,
	.get_fecparam = get_fecparam,
	.get_link = ethtool_op_get_link,
#if RNIC_KERNEL_6_12
	.get_link_ext_stats = get_link_ext_stats,
#endif
	.get_link_ext_state = get_link_ext_state,
	.get_link_ksettings = get_link_ksettings,
	.get_pause_stats = get_pause_stats,
	.get_pauseparam = get_pauseparam,
	.get_ringparam = get_ringparam,
	.get_rmon_stats = get_rmon_stats,
	.get_sset_count = get_sset_count,
	.get_strings = get_strings,
	.set_fecparam = set_fecparam,
	.set_pauseparam = set_pauseparam,
};

static int ndo_open(struct net_device *dev)
{
	netif_tx_start_all_queues(dev);
	rnic_netdev_apply_link(to_sim(dev));
	return 0;
}

static int ndo_stop(struct net_device *dev)
{
	netif_tx_stop_all_queues(dev);
	netif_carrier_off(dev);
	rnic_link_event(to_sim(dev));
	return 0;
}

static netdev_tx_t ndo_start_xmit(struct sk_buff *skb, struct net_device *dev)
{
	/* There is no wire, and counters move only when a test sets them. */
	dev_kfree_skb_any(skb);
	return NETDEV_TX_OK;
}

static void ndo_get_stats64(struct net_device *dev, struct rtnl_link_stats64 *stats)
{
	struct rnic *sim = to_sim(dev);

#define NAME(name) stats->name = READ_ONCE(sim->netdev[RNIC_NETDEV_##name]);
	RNIC_NETDEV_COUNTERS(NAME)
#undef NAME
}

static int ndo_get_phys_port_name(struct net_device *dev, char *name, size_t len)
{
	return snprintf(name, len, "p0") >= len ? -EINVAL : 0;
}

static const struct net_device_ops netdev_ops = {
	.ndo_open = ndo_open,
	.ndo_stop = ndo_stop,
	.ndo_start_xmit = ndo_start_xmit,
	.ndo_get_stats64 = ndo_get_stats64,
	.ndo_get_phys_port_name = ndo_get_phys_port_name,
	.ndo_set_mac_address = eth_mac_addr,
	.ndo_validate_addr = eth_validate_addr,
};

void rnic_netdev_apply_link(struct rnic *sim)
{
	ASSERT_RTNL();
	if (!netif_running(sim->ndev))
		return;
	if (sim->link_up)
		netif_carrier_on(sim->ndev);
	else
		netif_carrier_off(sim->ndev);
	rnic_link_event(sim);
}

void rnic_netdev_defaults(struct rnic *sim)
{
	sim->fec_mode = ETHTOOL_FEC_AUTO;
}

int rnic_netdev_register(struct rnic *sim, const u8 *mac)
{
	/* An extra device gets one queue: hundreds of them mean a uevent a queue. */
	int queues = sim->pdev ? RNIC_CHANNELS : 1;
	struct net_device *dev = alloc_etherdev_mqs(sizeof(sim), queues, queues);
	int err;

	if (!dev)
		return -ENOMEM;
	*(struct rnic **)netdev_priv(dev) = sim;
	if (sim->pdev)
		SET_NETDEV_DEV(dev, &sim->pdev->dev);
	dev->netdev_ops = &netdev_ops;
	dev->ethtool_ops = &ethtool_ops;
	dev->dcbnl_ops = &rnic_dcbnl_ops;
	dev->min_mtu = ETH_MIN_MTU;
	dev->max_mtu = 9978;
	eth_hw_addr_set(dev, mac);
	netif_carrier_off(dev);
	sim->ndev = dev;
	err = register_netdev(dev);
	if (err) {
		sim->ndev = NULL;
		free_netdev(dev);
	}
	return err;
}

void rnic_netdev_unregister(struct rnic *sim)
{
	struct net_device *dev = sim->ndev;

	unregister_netdev(dev);
	sim->ndev = NULL;
	free_netdev(dev);
}
