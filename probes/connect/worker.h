// SPDX-License-Identifier: Apache-2.0
//
// The process that makes and takes rdma_cm connections for the connect probe, one of its own at a time.
#pragma once

namespace roce::probe {

// Talks on the socket until the other end closes it.
void run_connect_worker(int socket);

}  // namespace roce::probe
