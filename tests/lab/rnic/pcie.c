// SPDX-License-Identifier: GPL-2.0-only
/* Simulated ConnectX-class RNIC: the PCIe link. */
#include "rnic.h"

int rnic_pcie_attach(struct rnic *sim)
{
	return 0;
}

void rnic_pcie_detach(struct rnic *sim)
{
}

int rnic_pcie_set(struct rnic *sim, const char *what, u32 value)
{
	return -EOPNOTSUPP;
}
