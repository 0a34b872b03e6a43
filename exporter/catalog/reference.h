// SPDX-License-Identifier: Apache-2.0
//
// The metrics reference, made from the catalog: what `roce_exporter metrics-reference` prints. Both functions depend on
// the catalog alone, so that the same program always gives the same text. They may be called from any thread.
#pragma once

#include <string>

namespace roce {

// {"metrics":[{name,type,unit,labels,help,collector,default,proof,sources:[{driver,counter,interface,labels,scale}]}],
//  "omitted":[{driver,counter,reason}]}
// `labels` of a metric is the list of its label names; of a source, an object with the values that are fixed for that
// counter. Published value = raw value * scale. Each counter that the catalog knows is in exactly one of the lists.
std::string metrics_reference_json();

// The same as a page for people, by collector, with the process's own metrics and node_exporter's names.
std::string metrics_reference_markdown();

}  // namespace roce
