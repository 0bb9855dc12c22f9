package overlaystatus

import (
	"fmt"
	"strings"

	overlayv1 "cadre.dev/proto/cadre/overlay/v1"
)

// Bounds of one node's report.
const (
	maxLinks = 1024
	maxList  = 64
	// maxText bounds each text: names, addresses and explanations.
	maxText = 512
)

// BoundLinks refuses Links that no node can have and shortens their texts.
func BoundLinks(links []*overlayv1.Link) error {
	if len(links) > maxLinks {
		return fmt.Errorf("%d links, at most %d", len(links), maxLinks)
	}
	for _, l := range links {
		if len(l.GetStandby()) > maxList || len(l.GetCandidates()) > maxList || len(l.GetChanges()) > maxList {
			return fmt.Errorf("a link with more than %d entries of a kind", maxList)
		}
		truncateText(&l.Peer, &l.Group, &l.BootId, &l.State, &l.Path, &l.PathReason, &l.Local, &l.Remote, &l.Carrier, &l.LastError)
		for i := range l.Standby {
			truncateText(&l.Standby[i])
		}
		for _, c := range l.GetCandidates() {
			truncateText(&c.Path, &c.Remote)
		}
		for _, c := range l.GetChanges() {
			truncateText(&c.From, &c.To, &c.Reason)
		}
	}
	return nil
}

// BoundPing does the same for round trips.
func BoundPing(p *overlayv1.Ping) error {
	if len(p.GetSamples()) > maxList {
		return fmt.Errorf("%d round trips, at most %d", len(p.GetSamples()), maxList)
	}
	for _, s := range p.GetSamples() {
		truncateText(&s.Path, &s.Carrier, &s.Error)
	}
	return nil
}

// BoundBench does the same for a bench.
func BoundBench(b *overlayv1.Bench) {
	if b != nil {
		truncateText(&b.Path, &b.Carrier)
	}
}

func truncateText(texts ...*string) {
	for _, t := range texts {
		if len(*t) > maxText {
			*t = strings.ToValidUTF8((*t)[:maxText], "") + "..."
		}
	}
}
