// SPDX-License-Identifier: Apache-2.0
#include "exporter/web/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "exporter/web/html.h"

namespace roce {
namespace {

// In units of the picture.
constexpr int kRow = 44;
constexpr int kGap = 10;
constexpr int kTop = 26;  // below the headings
constexpr int kFrame = 24;
struct Column {
  int left;
  int width;
  int right() const { return left + width; }
};
constexpr Column kNodes{0, 200};
constexpr Column kCards{12, 176};
constexpr Column kPorts{256, 200};
constexpr Column kSessions{520, 190};
constexpr Column kPeers{780, 200};
constexpr std::size_t kText = 23;  // characters that fit into a box

struct Group {
  std::string kind;
  std::string peer;
  std::optional<std::size_t> link;  // in Picture::links
  std::string netdev;
  std::vector<const SessionView*> sessions;
  bool good = true;
  std::optional<Status> trouble;
  int y = 0;

  std::string title() const {
    if (sessions.size() == 1) return fmt::format("{} {}", kind, sessions.front()->name);
    return fmt::format("{} × {}", sessions.size(), kind);
  }
  std::string state() const {
    if (sessions.size() == 1) return sessions.front()->state;
    const auto bad = std::count_if(sessions.begin(), sessions.end(), [](const SessionView* s) { return !s->good; });
    if (bad != 0) return fmt::format("{} of {} not live", bad, sessions.size());
    return sessions.front()->state.empty() ? "" : fmt::format("all {}", sessions.front()->state);
  }
};

struct Peer {
  std::string name;
  bool good = true;
  int y = 0;
};

struct Picture {
  std::vector<const LinkView*> links;  // in the order of their cards
  std::vector<int> link_y;
  std::vector<std::size_t> cards;  // of view.cards, those that are shown
  std::vector<Group> groups;
  std::vector<Peer> peers;
  std::size_t links_left_out = 0;
  std::size_t groups_left_out = 0;
};

// What colours a box or a line; words and line styles say the same.
std::string_view tone(std::optional<Status> trouble, bool good) {
  if (trouble == Status::kCritical || trouble == Status::kUnknown) return "critical";
  if (trouble || !good) return "warning";
  return "quiet";
}

std::string_view tone_of(const LinkView& link) {
  if (!link.trouble && link.up == false) return "off";
  return tone(link.trouble, true);
}

Picture compose(const StatusView& view, const TopologyLimits& limits) {
  Picture picture;
  std::vector<bool> used(view.links.size(), false);
  for (const SessionView& session : view.sessions)
    if (session.link) used[*session.link] = true;
  // Those with a fault first, then those with storage, then the rest, until the picture is full.
  std::vector<std::size_t> chosen;
  for (const int round : {0, 1, 2, 3})
    for (std::size_t i = 0; i < view.links.size(); ++i) {
      const LinkView& link = view.links[i];
      const int rank = link.trouble ? 0 : used[i] ? 1 : link.function ? 3 : 2;
      if (rank == round) chosen.push_back(i);
    }
  // Functions are many and alike: the table has them.
  std::erase_if(chosen, [&](std::size_t i) {
    return view.links[i].function && !view.links[i].trouble && !used[i] && view.links.size() > limits.links;
  });
  if (chosen.size() > limits.links) chosen.resize(limits.links);
  picture.links_left_out = view.links.size() - chosen.size();
  std::sort(chosen.begin(), chosen.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(view.links[a].card, a) < std::pair(view.links[b].card, b);
  });
  for (const std::size_t i : chosen) {
    picture.links.push_back(&view.links[i]);
    if (picture.cards.empty() || picture.cards.back() != view.links[i].card)
      picture.cards.push_back(view.links[i].card);
  }

  for (const SessionView& session : view.sessions) {
    std::optional<std::size_t> link;
    if (session.link) {
      const auto at = std::find(chosen.begin(), chosen.end(), *session.link);
      if (at == chosen.end()) {
        ++picture.groups_left_out;
        continue;
      }
      link = static_cast<std::size_t>(at - chosen.begin());
    }
    auto at = std::find_if(picture.groups.begin(), picture.groups.end(), [&](const Group& g) {
      return g.kind == session.kind && g.peer == session.peer && g.link == link && g.netdev == session.netdev;
    });
    if (at == picture.groups.end()) {
      if (picture.groups.size() >= limits.sessions) {
        ++picture.groups_left_out;
        continue;
      }
      Group group;
      group.kind = session.kind;
      group.peer = session.peer;
      group.link = link;
      group.netdev = session.netdev;
      picture.groups.push_back(std::move(group));
      at = std::prev(picture.groups.end());
    }
    at->sessions.push_back(&session);
    at->good = at->good && session.good;
    if (session.trouble) at->trouble = at->trouble ? worse(*at->trouble, *session.trouble) : *session.trouble;
  }
  std::vector<std::size_t> order(picture.groups.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const auto last = picture.links.size();
    return std::pair(picture.groups[a].link.value_or(last), a) < std::pair(picture.groups[b].link.value_or(last), b);
  });
  std::vector<Group> sorted;
  for (const std::size_t i : order) sorted.push_back(std::move(picture.groups[i]));
  picture.groups = std::move(sorted);
  for (const Group& group : picture.groups) {
    if (group.peer.empty()) continue;
    auto peer =
        std::find_if(picture.peers.begin(), picture.peers.end(), [&](const Peer& p) { return p.name == group.peer; });
    if (peer == picture.peers.end()) peer = picture.peers.insert(peer, Peer{group.peer, true, 0});
    peer->good = peer->good && group.good;
  }
  return picture;
}

void box(std::string& out, const Column& column, int y, std::string_view tone, std::string_view title,
         std::string_view text) {
  fmt::format_to(std::back_inserter(out),
                 "<g class=\"box {}\"><title>{} {}</title><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" "
                 "rx=\"7\"/><text x=\"{}\" y=\"{}\">{}</text>",
                 tone, html_escape(title), html_escape(text), column.left, y, column.width, kRow, column.left + 10,
                 text.empty() ? y + 27 : y + 19, html_escape(shortened(title, kText)));
  if (!text.empty())
    fmt::format_to(std::back_inserter(out), "<text class=\"small\" x=\"{}\" y=\"{}\">{}</text>", column.left + 10,
                   y + 35, html_escape(shortened(text, kText + 5)));
  out += "</g>";
}

void edge(std::string& out, int from_x, int from_y, int to_x, int to_y, std::string_view tone) {
  const int bend = (from_x + to_x) / 2;
  fmt::format_to(std::back_inserter(out), "<path class=\"edge {}\" d=\"M{} {}C{} {} {} {} {} {}\"/>", tone, from_x,
                 from_y, bend, from_y, bend, to_y, to_x, to_y);
}

std::string link_text(const LinkView& link) {
  std::string text = link.netdev;
  if (!text.empty()) text += " · ";
  text += link.up == true && link.rate > 0 ? fmt::format("{:g} Gb/s", link.rate * 8 / 1e9) : link.state;
  return text;
}

std::string node_text(const std::string& numa) {
  return numa.empty() ? std::string("NUMA node unknown") : fmt::format("NUMA node {}", numa);
}

// Both neighbours' middle, where there is room below `least`.
int placed(const std::vector<int>& neighbours, int least) {
  if (neighbours.empty()) return least;
  int sum = 0;
  for (const int y : neighbours) sum += y;
  return std::max(least, sum / static_cast<int>(neighbours.size()));
}

std::string draw(const StatusView& view, Picture& picture) {
  std::string nodes;
  std::string boxes;
  std::string edges;
  int bottom = kTop;

  // Cards stand in the frame of their NUMA node, with their ports beside them.
  int y = kTop;
  std::size_t link = 0;
  for (std::size_t i = 0; i < picture.cards.size(); ++i) {
    const CardView& card = view.cards[picture.cards[i]];
    const bool first = i == 0 || view.cards[picture.cards[i - 1]].numa != card.numa;
    const bool last = i + 1 == picture.cards.size() || view.cards[picture.cards[i + 1]].numa != card.numa;
    if (first) {
      fmt::format_to(std::back_inserter(nodes), "<rect class=\"node\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"",
                     kNodes.left + 1, y, kNodes.width - 2);
      boxes += fmt::format("<text class=\"small\" x=\"{}\" y=\"{}\">{}</text>", kCards.left, y + 17,
                           html_escape(node_text(card.numa)));
      bottom = y;  // of this frame, until its end is known
      y += kFrame;
    }
    const int begin = y;
    std::vector<int> ports;
    for (; link < picture.links.size() && picture.links[link]->card == picture.cards[i]; ++link) {
      const LinkView& l = *picture.links[link];
      picture.link_y.push_back(y);
      ports.push_back(y);
      box(boxes, kPorts, y, tone_of(l), l.name(), link_text(l));
      y += kRow + kGap;
    }
    const int card_y = placed(ports, begin);
    for (std::size_t p = 0; p < ports.size(); ++p)
      edge(edges, kCards.right(), card_y + kRow / 2, kPorts.left, ports[p] + kRow / 2,
           tone_of(*picture.links[link - ports.size() + p]));
    box(boxes, kCards, card_y, tone(card.trouble, card.pcie.empty()), card.slot, card.pcie);
    if (last) {
      nodes += fmt::format("{}\" rx=\"9\"/>", y - bottom);
      y += kGap;
    }
  }
  bottom = y;

  // Sessions and peers stay near what they belong to.
  y = kTop;
  for (Group& group : picture.groups) {
    if (group.link) y = std::max(y, picture.link_y[*group.link]);
    group.y = y;
    const std::string_view shade = tone(group.trouble, group.good);
    box(boxes, kSessions, y, shade, group.title(), group.state().empty() && !group.link ? group.netdev : group.state());
    if (group.link)
      edge(edges, kPorts.right(), picture.link_y[*group.link] + kRow / 2, kSessions.left, y + kRow / 2, shade);
    y += kRow + kGap;
  }
  bottom = std::max(bottom, y);
  y = kTop;
  for (Peer& peer : picture.peers) {
    std::vector<int> at;
    for (const Group& group : picture.groups)
      if (group.peer == peer.name) at.push_back(group.y);
    y = placed(at, y);
    peer.y = y;
    box(boxes, kPeers, y, peer.good ? "quiet" : "warning", peer.name, "");
    for (const Group& group : picture.groups)
      if (group.peer == peer.name)
        edge(edges, kSessions.right(), group.y + kRow / 2, kPeers.left, y + kRow / 2, tone(group.trouble, group.good));
    y += kRow + kGap;
  }
  bottom = std::max(bottom, y);

  const int width = picture.groups.empty()  ? kPorts.right()
                    : picture.peers.empty() ? kSessions.right()
                                            : kPeers.right();
  std::string out = fmt::format(
      "<svg class=\"picture\" viewBox=\"-2 0 {} {}\" width=\"{}\" height=\"{}\" aria-hidden=\"true\" "
      "focusable=\"false\">",
      width + 4, bottom, width + 4, bottom);
  const auto heading = [&out](const Column& column, std::string_view text) {
    fmt::format_to(std::back_inserter(out), "<text class=\"small\" x=\"{}\" y=\"14\">{}</text>", column.left, text);
  };
  heading(kNodes, "NIC in its slot");
  heading(kPorts, "Port and network device");
  if (!picture.groups.empty()) heading(kSessions, "Storage sessions");
  if (!picture.peers.empty()) heading(kPeers, "Peers");
  out += nodes + edges + boxes + "</svg>\n";
  return out;
}

std::string list(const StatusView& view, const Picture& picture) {
  std::string out = "<ul class=\"tree\">\n";
  std::size_t link = 0;
  const auto say_group = [&out](const Group& group) {
    out += fmt::format("<li class=\"{}\">{}", tone(group.trouble, group.good), html_name(group.title()));
    if (!group.peer.empty()) out += fmt::format(" to {}", html_name(group.peer));
    if (!group.state().empty()) out += fmt::format(", {}", html_escape(group.state()));
    out += "</li>";
  };
  for (const std::size_t index : picture.cards) {
    const CardView& card = view.cards[index];
    out += fmt::format("<li>{}, card {}{}{}<ul>\n", html_escape(node_text(card.numa)), html_name(card.slot),
                       card.pcie.empty() ? "" : ", ", html_escape(card.pcie));
    for (; link < picture.links.size() && picture.links[link]->card == index; ++link) {
      const LinkView& l = *picture.links[link];
      out += fmt::format("<li class=\"{}\">{}, {}", tone_of(l), html_name(l.name()), html_escape(link_text(l)));
      if (l.trouble) out += fmt::format(", {}", to_string(*l.trouble));
      const bool any = std::any_of(picture.groups.begin(), picture.groups.end(),
                                   [&](const Group& group) { return group.link == link; });
      if (any) {
        out += "<ul>";
        for (const Group& group : picture.groups)
          if (group.link == link) say_group(group);
        out += "</ul>";
      }
      out += "</li>\n";
    }
    out += "</ul></li>\n";
  }
  const bool loose =
      std::any_of(picture.groups.begin(), picture.groups.end(), [](const Group& group) { return !group.link; });
  if (loose) {
    out += "<li>Over none of these ports<ul>";
    for (const Group& group : picture.groups)
      if (!group.link) say_group(group);
    out += "</ul></li>\n";
  }
  out += "</ul>\n";
  return out;
}

}  // namespace

std::string topology_html(const StatusView& view, TopologyLimits limits) {
  if (view.links.empty()) return {};
  Picture picture = compose(view, limits);
  std::string out = "<div class=\"wide\" id=\"picture\">";
  out += draw(view, picture) + "</div>\n" + list(view, picture);
  if (picture.links_left_out != 0 || picture.groups_left_out != 0)
    out += fmt::format("<p class=\"note\">Not drawn: {} links, {} storage sessions; the tables have them.</p>\n",
                       picture.links_left_out, picture.groups_left_out);
  return out;
}

}  // namespace roce
