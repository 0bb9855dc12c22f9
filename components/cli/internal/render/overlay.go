package render

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"cadre.dev/client"
	"cadre.dev/client/format"
)

// Overlay is one line for each Link of a node.
func Overlay(s Style, m client.Overlay, now time.Time) string {
	head := s.Fields(Field{"seen from", Cell{m.Slot, Bold}}) + "\n"
	if len(m.Links) == 0 {
		return head + "no peers yet\n"
	}
	rows := [][]Cell{}
	for _, l := range m.Links {
		rows = append(rows, []Cell{
			T(l.Peer, Bold), T(l.Path, pathTone(l)), C(l.Carrier), C(millis(l.RTT)), C(Loss(l)),
			C(format.Bytes(int64(l.BytesIn))), C(format.Bytes(int64(l.BytesOut))), C(since(linkSince(l), now)), C(linkWhy(l)),
		})
	}
	return head + s.Table([]string{"PEER", "PATH", "CARRIER", "RTT", "LOSS", "IN", "OUT", "FOR", "WHY"}, rows)
}

// linkSince is the start of the state in the line.
func linkSince(l client.Link) time.Time {
	if up(l) {
		return l.PathSince
	}
	return l.Since
}

func up(l client.Link) bool { return l.State == "up" }

// linkWhy is the reason for the path, or for its absence.
func linkWhy(l client.Link) string {
	if up(l) {
		return l.PathReason
	}
	text := l.State
	switch l.State {
	case "absent":
		text = "there is no peer to reach"
	case "idle":
		text = "unused; the next connection makes it"
	case "awaited":
		text = "the peer dials, and has not yet"
	}
	if l.LastError != "" {
		text += ": " + l.LastError
	}
	return text
}

func pathTone(l client.Link) Tone {
	switch {
	case l.State == "idle":
		return Plain
	case !up(l):
		return Bad
	case strings.HasPrefix(l.Path, "direct-"):
		return Good
	}
	return Warn
}

// Loss is the loss of the datagram path in use; byte streams repeat lost bytes, so they have none: "".
func Loss(l client.Link) string {
	if l.Carrier != "quic" {
		return ""
	}
	for _, c := range l.Candidates {
		if c.InUse {
			return percent(c.Loss)
		}
	}
	if l.PacketsSent == 0 {
		return ""
	}
	return percent(float64(l.PacketsLost) / float64(l.PacketsSent))
}

func percent(share float64) string { return fmt.Sprintf("%.1f%%", 100*share) }

// millis is a round trip as people compare it; "" for none.
func millis(m client.Millis) string {
	d := time.Duration(m)
	switch {
	case d <= 0:
		return ""
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.2fms", d.Seconds()*1000)
	case d < time.Second:
		return fmt.Sprintf("%.1fms", d.Seconds()*1000)
	}
	return fmt.Sprintf("%.2fs", d.Seconds())
}

// MeshPath is everything about the Link from slot to one Peer.
func MeshPath(s Style, slot string, l client.Link, now time.Time) string {
	path := l.Path
	if up(l) {
		path += " for " + since(l.PathSince, now)
	}
	searches := fmt.Sprint(l.Searches)
	if l.Searching {
		searches += ", one under way"
	}
	standby := strings.Join(l.Standby, ", ")
	if standby == "" {
		standby = "none"
	}
	state := l.State + " for " + since(l.Since, now)
	var b strings.Builder
	b.WriteString(s.Fields(
		Field{"peer", Cell{l.Peer, Bold}},
		Field{"seen from", Cell{slot, Plain}},
		Field{"session", Cell{strings.TrimSuffix(state, " for "), sessionTone(l)}},
		Field{"path", Cell{path, pathTone(l)}},
		Field{"why", Cell{linkWhy(l), Plain}},
		Field{"carrier", Cell{l.Carrier, Plain}},
		Field{"local", Cell{l.Local, Plain}},
		Field{"remote", Cell{l.Remote, Plain}},
		Field{"boot", Cell{l.BootID, Plain}},
		Field{"round trip", Cell{millis(l.RTT), Plain}},
		Field{"moved", Cell{fmt.Sprintf("%s in, %s out", format.Bytes(int64(l.BytesIn)), format.Bytes(int64(l.BytesOut))), Plain}},
		Field{"packets", Cell{packets(l), Plain}},
		Field{"open connections", Cell{fmt.Sprint(l.Streams), Plain}},
		Field{"standby", Cell{standby, Plain}},
		Field{"searches", Cell{searches, Plain}},
		Field{"path changes", Cell{fmt.Sprint(l.PathChanges), Plain}},
	))
	if l.LastError != "" && up(l) {
		b.WriteString(s.Line("last error: "+l.LastError, Warn))
	}
	b.WriteString("\n" + s.Paint("datagram paths", Bold) + "\n" + candidates(s, l.Candidates))
	if len(l.Changes) > 0 {
		b.WriteString("\n" + s.Paint("changes", Bold) + "\n" + pathChanges(s, l.Changes, now))
	}
	return b.String()
}

func sessionTone(l client.Link) Tone {
	if up(l) {
		return Good
	}
	return Bad
}

func packets(l client.Link) string {
	if l.PacketsSent == 0 {
		return ""
	}
	return fmt.Sprintf("%d sent, %d lost", l.PacketsSent, l.PacketsLost)
}

func candidates(s Style, list []client.Candidate) string {
	if len(list) == 0 {
		return "none validated\n"
	}
	rows := [][]Cell{}
	for _, c := range list {
		use := C("")
		if c.InUse {
			use = Cell{"in use", Good}
		}
		rows = append(rows, []Cell{C(c.Path), C(c.Remote), C(millis(c.RTT)), C(percent(c.Loss)), use})
	}
	return s.Table([]string{"PATH", "REMOTE", "RTT", "LOSS", "USE"}, rows)
}

// pathChanges shows the newest first.
func pathChanges(s Style, list []client.PathChange, now time.Time) string {
	rows := [][]Cell{}
	for _, c := range slices.Backward(list) {
		rows = append(rows, []Cell{C(clock(c.At)), C(since(c.At, now)), C(c.From + " -> " + c.To), C(c.Reason)})
	}
	return s.Table([]string{"AT", "AGO", "PATH", "WHY"}, rows)
}

// Ping prints one line for each round trip, and a summary.
func Ping(s Style, p client.Ping) string {
	rows := [][]Cell{}
	times := []client.Millis{}
	for i, one := range p.Samples {
		answer := C(millis(one.RTT))
		if one.Error != "" {
			answer = Cell{"lost", Bad}
		} else {
			times = append(times, one.RTT)
		}
		rows = append(rows, []Cell{C(fmt.Sprint(i + 1)), answer, C(one.Path), C(one.Carrier), C(one.Error)})
	}
	text := s.Table([]string{"#", "RTT", "PATH", "CARRIER", "ERROR"}, rows)
	summary := fmt.Sprintf("%s from %s: %d of %d answered", p.Peer, p.Slot, len(times), len(p.Samples))
	if len(times) == 0 {
		return text + s.Line(summary, Bad)
	}
	slices.Sort(times)
	return text + s.Line(fmt.Sprintf("%s, min %s, median %s, max %s", summary,
		millis(times[0]), millis(times[len(times)/2]), millis(times[len(times)-1])), Plain)
}

// Bench is one line for each direction.
func Bench(s Style, list []client.Bench) string {
	rows := [][]Cell{}
	moved := false
	for _, b := range list {
		way := b.Slot + " -> " + b.Peer
		if b.Direction == client.Receive {
			way = b.Peer + " -> " + b.Slot
		}
		moved = moved || b.Moved
		rows = append(rows, []Cell{
			T(way, Bold), C(fmt.Sprintf("%.1f Mbps", b.Mbps)), C(format.Bytes(int64(b.Bytes))), C(fmt.Sprintf("%.1fs", time.Duration(b.Took).Seconds())),
			C(b.Path), C(b.Carrier), C(millis(b.RTT)), C(millis(b.LoadedRTT)),
		})
	}
	text := s.Table([]string{"DIRECTION", "THROUGHPUT", "MOVED", "TOOK", "PATH", "CARRIER", "RTT", "RTT UNDER LOAD"}, rows)
	if moved {
		text += s.Line("the path changed meanwhile: these figures are of more than one", Warn)
	}
	return text
}
