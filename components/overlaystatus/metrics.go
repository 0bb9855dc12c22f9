package overlaystatus

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"cadre.dev/overlay"
)

// collector reads all figures when it is asked, so that none can be stale.
type collector struct{ node func() Node }

var (
	descUp       = desc("session_up", "1 while a session with the peer is up.", "peer")
	descPath     = desc("path_info", "1 for the path and carrier in use with the peer.", "peer", "path", "carrier")
	descRTT      = desc("rtt_seconds", "Last measured round trip to the peer.", "peer")
	descOpen     = desc("open_streams", "Forwarded connections that are open.", "peer")
	descChanges  = desc("path_changes_total", "Changes of the path in use.", "peer")
	descSearches = desc("path_searches_total", "Searches for paths to the peer.", "peer")
	descBytes    = desc("bytes_total", "Bytes that all sessions with the peer moved.", "peer", "direction")
	descSent     = desc("packets_sent_total", "Packets of datagram carriers.", "peer")
	descLost     = desc("packets_lost_total", "Packets of datagram carriers that were lost.", "peer")
	descDropped  = desc("datagrams_dropped_total", "Datagrams of ports that found no way on.", "peer")
	descRefused  = desc("refused_total", "Refused attempts of the peer.", "peer", "protocol")

	// side is the owner of the port: "ours" or "theirs".
	descPortBytes = desc("port_bytes_total", "Bytes of one forwarded port.", "peer", "protocol", "port", "side", "direction")
	descPortUses  = desc("port_uses_total", "Connections of a TCP port, datagrams of a UDP port.", "peer", "protocol", "port", "side")

	descHandshakes = desc("failed_handshakes_total", "Connections that ended before a usable certificate was shown.")
	descNot        = desc("not_admitted_total", "Genuine certificates that the peer map does not name.")
	descOverloaded = desc("overloaded_total", "Handshakes and first contacts that found no free place.")
	descAdmissions = desc("admissions_total", "First contacts served.")
	descInvalid    = desc("invalid_frames_total", "Streams of no known kind.")
	descForbidden  = desc("forbidden_total", "Streams of a kind that the peer may not open.")
	descLimit      = desc("link_limit_total", "Streams above a peer's number.")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("cadre_overlay_"+name, help, labels, nil)
}

// NewCollector exports a node's metrics to Prometheus; node returns nil before there is
// one.
func NewCollector(node func() Node) prometheus.Collector { return collector{node} }

// Describe sends nothing: labels vary, the collector is unchecked.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect reads all figures.
func (c collector) Collect(out chan<- prometheus.Metric) {
	node := c.node()
	if node == nil {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	count := func(d *prometheus.Desc, v uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	for _, s := range node.Sessions() {
		peer, up := s.Peer.Slot, 0.0
		if s.State == overlay.SessionUp {
			up = 1
		}
		gauge(descUp, up, peer)
		gauge(descPath, 1, peer, string(s.Path), s.Carrier)
		if s.RTT > 0 {
			gauge(descRTT, s.RTT.Seconds(), peer)
		}
		gauge(descOpen, float64(s.Streams), peer)
		count(descChanges, s.PathChanges, peer)
		count(descSearches, s.Searches, peer)
	}
	st := node.Stats()
	for _, p := range st.Peers {
		peer := p.Peer.Slot
		count(descBytes, p.BytesIn, peer, "in")
		count(descBytes, p.BytesOut, peer, "out")
		count(descSent, p.PacketsSent, peer)
		count(descLost, p.PacketsLost, peer)
		count(descDropped, p.DroppedDatagrams, peer)
		count(descRefused, p.RefusedTCP, peer, string(overlay.TCP))
		count(descRefused, p.RefusedUDP, peer, string(overlay.UDP))
		for _, port := range p.Ports {
			side := "ours"
			if port.Outbound {
				side = "theirs"
			}
			protocol, number := string(port.Port.Protocol), strconv.Itoa(int(port.Port.Port))
			count(descPortBytes, port.BytesIn, peer, protocol, number, side, "in")
			count(descPortBytes, port.BytesOut, peer, protocol, number, side, "out")
			count(descPortUses, port.Streams+port.Datagrams, peer, protocol, number, side)
		}
	}
	count(descHandshakes, st.FailedHandshakes)
	count(descNot, st.NotAdmitted)
	count(descOverloaded, st.Overloaded)
	count(descAdmissions, st.Admissions)
	count(descInvalid, st.InvalidFrames)
	count(descForbidden, st.Forbidden)
	count(descLimit, st.LinkLimit)
}
