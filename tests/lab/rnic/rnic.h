/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Simulated ConnectX-class RNIC: shared declarations.
 *
 * One struct rnic stands for one function: the RDMA device and the netdev on
 * it come and go (plug, unplug), the struct stays until the PCI function is
 * unbound or the module is removed, so callbacks may always use it.
 */
#ifndef RNIC_H
#define RNIC_H

#include <linux/dcbnl.h>
#include <linux/ethtool.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/pci.h>
#include <linux/types.h>
#include <linux/version.h>
#include <linux/wait.h>
#include <rdma/ib_verbs.h>

#define RNIC_DRIVER "mlx5_core"
#define RNIC_FW_MAJOR 28
#define RNIC_FW_MINOR 39
#define RNIC_FW_SUB 1002
#define RNIC_BOARD_ID "MT_0000000838"
#define RNIC_PCI_DEVICE 0x1021 /* what a ConnectX-7 answers */
#define RNIC_KERNEL_6_12 (LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0))

#define RNIC_MAX_HW 64
#define RNIC_MAX_VPORT 32
#define RNIC_MAX_ETH 320
#define RNIC_CHANNELS 4

/* The PMA counters of a port; width in bits decides where a value sticks. */
#define RNIC_PORT_COUNTERS(X)              \
	X(symbol_error, 16)                    \
	X(link_error_recovery, 8)              \
	X(link_downed, 8)                      \
	X(port_rcv_errors, 16)                 \
	X(port_rcv_remote_physical_errors, 16) \
	X(port_rcv_switch_relay_errors, 16)    \
	X(port_xmit_discards, 16)              \
	X(port_xmit_constraint_errors, 8)      \
	X(port_rcv_constraint_errors, 8)       \
	X(local_link_integrity_errors, 4)      \
	X(excessive_buffer_overrun_errors, 4)  \
	X(VL15_dropped, 16)                    \
	X(port_xmit_wait, 32)                  \
	X(port_xmit_data, 64)                  \
	X(port_rcv_data, 64)                   \
	X(port_xmit_packets, 64)               \
	X(port_rcv_packets, 64)                \
	X(unicast_xmit_packets, 64)            \
	X(unicast_rcv_packets, 64)             \
	X(multicast_xmit_packets, 64)          \
	X(multicast_rcv_packets, 64)

enum rnic_port_counter {
#define RNIC_ENUM(name, width) RNIC_PORT_##name,
	RNIC_PORT_COUNTERS(RNIC_ENUM)
#undef RNIC_ENUM
	RNIC_MAX_PORT
};

/* From here on a port counter travels in the extended attribute. */
#define RNIC_PORT_FIRST_EXT RNIC_PORT_port_xmit_data

/* Values that no `ethtool -S` name carries. */
#define RNIC_NETDEV_COUNTERS(X)  \
	X(rx_packets)                \
	X(tx_packets)                \
	X(rx_bytes)                  \
	X(tx_bytes)                  \
	X(rx_errors)                 \
	X(tx_errors)                 \
	X(rx_dropped)                \
	X(tx_dropped)                \
	X(multicast)                 \
	X(rx_length_errors)          \
	X(rx_crc_errors)             \
	X(rx_frame_errors)           \
	X(rx_missed_errors)          \
	X(rx_over_errors)            \
	X(tx_aborted_errors)         \
	X(tx_carrier_errors)

enum rnic_netdev_counter {
#define RNIC_ENUM(name) RNIC_NETDEV_##name,
	RNIC_NETDEV_COUNTERS(RNIC_ENUM)
#undef RNIC_ENUM
	RNIC_MAX_NETDEV
};

enum rnic_fec_counter {
	RNIC_FEC_corrected_blocks,
	RNIC_FEC_uncorrectable_blocks,
	RNIC_MAX_FEC
};

enum rnic_log { RNIC_LOG_OFF, RNIC_LOG_ERRORS, RNIC_LOG_DOWN };

struct rnic;

struct rnic_ib {
	struct ib_device ibdev; /* first: the core frees it through this */
	struct rnic *sim;
};

struct rnic {
	struct list_head list;
	int id;
	char name[IB_DEVICE_NAME_MAX]; /* mlx5_ID: what it registers as; udev may rename it */
	struct pci_dev *pdev; /* NULL for an extra device */
	u16 pci_vendor, pci_device; /* as the function had them before us */

	struct rnic_ib *ib; /* NULL while unplugged */
	struct ib_device *event_dev; /* = &ib->ibdev, under RTNL, once registered */
	struct net_device *ndev;
	bool switchdev;
	bool live; /* set after registration: faults act only then */
	bool gone; /* unplug has begun: sleepers return */
	wait_queue_head_t wait;

	u64 hw[RNIC_MAX_HW];
	u64 vport[RNIC_MAX_VPORT];
	u64 port[RNIC_MAX_PORT];
	u64 eth[RNIC_MAX_ETH];
	u64 netdev[RNIC_MAX_NETDEV];
	u64 fec[RNIC_MAX_FEC];

	/* Errors are positive errno values, 0 = none. */
	int hw_errno[RNIC_MAX_HW];
	int vport_errno[RNIC_MAX_VPORT];
	int port_errno[RNIC_MAX_PORT];
	int all_hw_errno, all_port_errno, all_eth_errno;
	bool any_hw_errno;
	u32 hang_hw_ms, hang_eth_ms;
	enum rnic_log log;

	/* The core's cache of the counters, to drop it when a value is set. */
	struct rdma_hw_stats *port_stats, *dev_stats;

	bool link_up;
	u32 speed; /* Mb/s */
	u32 ext_state;
	bool real_names;

	bool pause_rx, pause_tx;
	u32 fec_mode;
	struct ieee_pfc pfc; /* requests and indications as of the last statistics read */
	struct ieee_ets ets;
	struct ieee_maxrate maxrate;
	struct dcbnl_buffer buffer;
	u8 dcbx;

	struct dentry *cc_dir;
	u32 cc_params[32];

	/* Simulated PCIe link, see pcie.c. */
	u16 pcie_speed, pcie_width;
	u16 pcie_max_speed, pcie_max_width;
	u16 pcie_slot_speed, pcie_slot_width;
	u16 max_read_req; /* bytes */
};

extern struct list_head rnic_list;
extern struct mutex rnic_mutex; /* the list, plug and unplug */
extern struct dentry *rnic_mlx5_dir;

/* main.c */
int rnic_plug(struct rnic *sim);
void rnic_unplug(struct rnic *sim);
struct rnic *rnic_find(const char *name);
int rnic_hang(struct rnic *sim, const u32 *ms);
void rnic_log_query(struct rnic *sim, const char *what, int err);
void rnic_link_event(struct rnic *sim);

/* rdma.c */
extern const char *const rnic_port_names[RNIC_MAX_PORT];
int rnic_hw_index(const char *name);
int rnic_vport_index(const char *name);
int rnic_hw_count(void);
int rnic_vport_count(void);
const char *rnic_hw_name(int i);
const char *rnic_vport_name(int i);
int rnic_ib_register(struct rnic *sim, u64 guid);
void rnic_ib_unregister(struct rnic *sim);
void rnic_drop_cache(struct rnic *sim);

/* objects.c */
extern const struct ib_device_ops rnic_object_ops;

/* netdev.c */
extern const char *const rnic_netdev_names[RNIC_MAX_NETDEV];
extern const char *const rnic_fec_names[RNIC_MAX_FEC];
void rnic_eth_names_init(void);
int rnic_eth_count(void);
int rnic_eth_index(const char *name);
const char *rnic_eth_name(int i);
void rnic_netdev_defaults(struct rnic *sim);
int rnic_netdev_register(struct rnic *sim, const u8 *mac);
void rnic_netdev_unregister(struct rnic *sim);
void rnic_netdev_apply_link(struct rnic *sim);

/* dcb.c */
extern const struct dcbnl_rtnl_ops rnic_dcbnl_ops;
void rnic_dcb_defaults(struct rnic *sim);

/* control.c */
int rnic_control_init(void);
void rnic_control_exit(void);
void rnic_cc_init(struct rnic *sim);
void rnic_cc_exit(struct rnic *sim);

/* pcie.c */
void rnic_pcie_detach(struct rnic *sim);
int rnic_pcie_set(struct rnic *sim, const char *what, u32 value);

#endif
