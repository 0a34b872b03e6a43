// SPDX-License-Identifier: Apache-2.0
//
// A made tree and one collector on it, as the engine would run it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/collectors/collector.h"
#include "exporter/metrics/exposition.h"
#include "tests/support/temp_tree.h"

namespace roce {

class CollectorFixture : public testing::Test {
 protected:
  CollectorFixture() : host_(std::make_shared<Host>(*tree_.host())) {}

  // The named RDMA device, or the host for an empty name, as the inventory finds it in the tree now.
  std::shared_ptr<const InventoryDevice> object(std::string_view name) const {
    Inventory inventory(host_, [](std::string_view) { return true; }, [](std::string_view) { return true; });
    const DeviceList devices = inventory.refresh().value();
    for (const auto& device : devices)
      if (device->name == name) return device;
    for (const auto& other : inventory.others())
      if (other->name == name) return other;
    ADD_FAILURE() << "no object " << name;
    return std::make_shared<InventoryDevice>();
  }

  std::unique_ptr<Collector> create(std::string_view collector, std::string_view name = {}) const {
    for (const CollectorEntry& entry : collector_registry())
      if (entry.name == collector)
        return entry.create({host_, object(name), std::make_shared<PortStates>(), settings_});
    ADD_FAILURE() << "no collector " << collector;
    return nullptr;
  }

  // One run: the page it makes, and its failure in error_.
  std::string page(Collector& collector) {
    Output out;
    const auto result = collector.collect(out);
    error_ = result ? std::string() : result.error().message();
    kind_ = result ? std::string() : std::string(to_string(result.error().kind));
    std::vector<const SampleBatch*> batches;
    for (const auto& part : out.parts) {
      batches.push_back(&part->samples);
      EXPECT_EQ(part->samples.malformed(), 0U) << "a sample had not the labels of its metric";
    }
    std::size_t duplicates = 0;
    const std::string text = render_text(batches, &duplicates);
    EXPECT_EQ(duplicates, 0U);
    return text;
  }

  std::string page(std::string_view collector, std::string_view name = {}) { return page(*create(collector, name)); }

  TempTree tree_;
  std::shared_ptr<Host> host_;
  CollectorSettings settings_;
  std::string error_;
  std::string kind_;
};

}  // namespace roce
