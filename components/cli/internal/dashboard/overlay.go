package dashboard

import (
	"fmt"
	"strings"
	"time"

	"cadre.dev/cli/internal/render"
	"cadre.dev/client"
	"cadre.dev/client/format"
)

type linkRow struct {
	Peer, Path, Group  string
	Route              mark
	Carrier, RTT, Loss string
	// Length is the round trip on a scale of 0 to 100 that doubles, for the drawing.
	Length  int
	In, Out string
	Since   time.Time
	Why     string
}

type overlayModel struct {
	Slot  string
	Links []linkRow
	Pager pager
	// Up counts the links with a session.
	Up bar
}

func overlayOf(o client.Overlay, f filter, path string) overlayModel {
	m := overlayModel{Slot: o.Slot}
	var chosen []client.Link
	for _, l := range o.Links {
		if l.State == "up" {
			m.Up.N++
		}
		if f.matches(l.Peer, l.Group, l.State, l.Path, l.Carrier) {
			chosen = append(chosen, l)
		}
	}
	m.Up.Of, m.Up.Tone = len(o.Links), good
	page, pager := paged(chosen, f, path)
	m.Pager = pager
	for _, l := range page {
		m.Links = append(m.Links, linkOf(l))
	}
	return m
}

func linkOf(l client.Link) linkRow {
	row := linkRow{Peer: l.Peer, Group: l.Group, Route: routeMark(l), Carrier: l.Carrier, RTT: millis(l.RTT), Loss: render.Loss(l), Length: rttLength(l.RTT),
		In: format.Bytes(int64(l.BytesIn)), Out: format.Bytes(int64(l.BytesOut)), Since: l.Since, Why: linkWhy(l)}
	if !l.Coordinator {
		row.Path = slotPath(l.Peer)
	}
	if l.State == "up" {
		row.Since = l.PathSince
	}
	return row
}

func routeMark(l client.Link) mark {
	switch {
	case l.State == "idle":
		return mark{"idle", plain}
	case l.State != "up":
		return mark{l.State, bad}
	case strings.HasPrefix(l.Path, "direct-"):
		return mark{l.Path, good}
	}
	return mark{l.Path, warn}
}

func linkWhy(l client.Link) string {
	if l.State == "up" {
		return l.PathReason
	}
	words := map[string]string{"absent": "there is no peer to reach", "idle": "unused; the next connection makes it", "awaited": "the peer dials, and has not yet"}
	text := words[l.State]
	if l.LastError != "" {
		text = strings.TrimPrefix(text+": "+l.LastError, ": ")
	}
	return text
}

func millis(m client.Millis) string {
	d := time.Duration(m)
	switch {
	case d <= 0:
		return ""
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.2f ms", d.Seconds()*1000)
	case d < time.Second:
		return fmt.Sprintf("%.1f ms", d.Seconds()*1000)
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

// rttLength grows by ten with each doubling from a quarter of a millisecond on.
func rttLength(m client.Millis) int {
	length := 4
	if m <= 0 {
		return 0
	}
	for d := 250 * time.Microsecond; d < time.Duration(m) && length < 100; d *= 2 {
		length += 10
	}
	return min(length, 100)
}
