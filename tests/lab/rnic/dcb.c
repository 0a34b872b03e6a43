// SPDX-License-Identifier: GPL-2.0-only
/* Simulated ConnectX-class RNIC: DCB state (PFC, ETS, APP, rates, buffers). */
#include <net/dcbnl.h>

#include "rnic.h"

static struct rnic *to_sim(struct net_device *dev)
{
	return *(struct rnic **)netdev_priv(dev);
}

static int get_pfc(struct net_device *dev, struct ieee_pfc *pfc)
{
	*pfc = to_sim(dev)->pfc;
	return 0;
}

static int set_pfc(struct net_device *dev, struct ieee_pfc *pfc)
{
	struct rnic *sim = to_sim(dev);

	/* A port with global pause on refuses PFC. */
	if (pfc->pfc_en && (sim->pause_rx || sim->pause_tx))
		return -EINVAL;
	sim->pfc.pfc_en = pfc->pfc_en;
	sim->pfc.delay = pfc->delay;
	return 0;
}

static int get_ets(struct net_device *dev, struct ieee_ets *ets)
{
	*ets = to_sim(dev)->ets;
	return 0;
}

static int set_ets(struct net_device *dev, struct ieee_ets *ets)
{
	struct ieee_ets *mine = &to_sim(dev)->ets;
	int i, sum = 0;
	bool any = false;

	for (i = 0; i < IEEE_8021QAZ_MAX_TCS; i++) {
		if (ets->prio_tc[i] >= IEEE_8021QAZ_MAX_TCS)
			return -EINVAL;
		if (ets->tc_tsa[i] == IEEE_8021QAZ_TSA_ETS) {
			any = true;
			sum += ets->tc_tx_bw[i];
		}
	}
	if (any && sum != 100)
		return -EINVAL;
	memcpy(mine->tc_tx_bw, ets->tc_tx_bw, sizeof(mine->tc_tx_bw));
	memcpy(mine->tc_tsa, ets->tc_tsa, sizeof(mine->tc_tsa));
	memcpy(mine->prio_tc, ets->prio_tc, sizeof(mine->prio_tc));
	return 0;
}

static int get_maxrate(struct net_device *dev, struct ieee_maxrate *rate)
{
	*rate = to_sim(dev)->maxrate;
	return 0;
}

static int set_maxrate(struct net_device *dev, struct ieee_maxrate *rate)
{
	to_sim(dev)->maxrate = *rate;
	return 0;
}

/* The core keeps the APP table and tells whether it took the entry. */
static int set_app(struct net_device *dev, struct dcb_app *app)
{
	struct dcb_app old;
	u8 prio;

	if (app->selector != IEEE_8021QAZ_APP_SEL_DSCP || app->protocol >= 64)
		return -EINVAL;
	/* As the real driver: one priority a DSCP value, a new one replaces the old. */
	for (prio = 0; prio < IEEE_8021QAZ_MAX_TCS; prio++) {
		old = *app;
		old.priority = prio;
		if (prio != app->priority)
			dcb_ieee_delapp(dev, &old);
	}
	return dcb_ieee_setapp(dev, app);
}

static int del_app(struct net_device *dev, struct dcb_app *app)
{
	if (app->selector != IEEE_8021QAZ_APP_SEL_DSCP || app->protocol >= 64)
		return -EINVAL;
	return dcb_ieee_delapp(dev, app);
}

static int get_buffer(struct net_device *dev, struct dcbnl_buffer *buffer)
{
	*buffer = to_sim(dev)->buffer;
	return 0;
}

static int set_buffer(struct net_device *dev, struct dcbnl_buffer *buffer)
{
	struct dcbnl_buffer *mine = &to_sim(dev)->buffer;
	u64 sum = 0;
	int i;

	for (i = 0; i < DCBX_MAX_BUFFERS; i++) {
		if (buffer->prio2buffer[i] >= DCBX_MAX_BUFFERS)
			return -EINVAL;
		sum += buffer->buffer_size[i];
	}
	if (sum > mine->total_size)
		return -EINVAL;
	memcpy(mine->prio2buffer, buffer->prio2buffer, sizeof(mine->prio2buffer));
	memcpy(mine->buffer_size, buffer->buffer_size, sizeof(mine->buffer_size));
	return 0;
}

static u8 get_dcbx(struct net_device *dev)
{
	return to_sim(dev)->dcbx;
}

static u8 set_dcbx(struct net_device *dev, u8 mode)
{
	if (mode & DCB_CAP_DCBX_LLD_MANAGED || !(mode & DCB_CAP_DCBX_VER_IEEE))
		return 1;
	to_sim(dev)->dcbx = mode;
	return 0;
}

const struct dcbnl_rtnl_ops rnic_dcbnl_ops = {
	.ieee_getets = get_ets,
	.ieee_setets = set_ets,
	.ieee_getmaxrate = get_maxrate,
	.ieee_setmaxrate = set_maxrate,
	.ieee_getpfc = get_pfc,
	.ieee_setpfc = set_pfc,
	.ieee_setapp = set_app,
	.ieee_delapp = del_app,
	.getdcbx = get_dcbx,
	.setdcbx = set_dcbx,
	.dcbnl_getbuffer = get_buffer,
	.dcbnl_setbuffer = set_buffer,
};

void rnic_dcb_defaults(struct rnic *sim)
{
	int i;

	/* A RoCE host as its vendor's guides set it up: priority 3 lossless. */
	sim->pfc.pfc_cap = 8;
	sim->pfc.pfc_en = BIT(3);
	sim->pfc.delay = 7;
	sim->ets.ets_cap = 8;
	for (i = 0; i < IEEE_8021QAZ_MAX_TCS; i++) {
		sim->ets.prio_tc[i] = i;
		sim->ets.tc_tsa[i] = IEEE_8021QAZ_TSA_VENDOR;
	}
	sim->dcbx = DCB_CAP_DCBX_HOST | DCB_CAP_DCBX_VER_IEEE;
	sim->buffer.prio2buffer[3] = 1;
	sim->buffer.buffer_size[0] = 130944;
	sim->buffer.buffer_size[1] = 130944;
	sim->buffer.total_size = 262016;
}
