package control

import (
	"context"
	"time"

	controlv1 "cadre.dev/proto/cadre/control/v1"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	// debounce joins changes that come together into one report.
	debounce = 20 * time.Millisecond
	// heartbeat is the longest time between two reports.
	heartbeat = 2 * time.Second
)

// runReports makes one report for all coordinators after each change and at
// least every heartbeat.
func (h *Hub) runReports(ctx context.Context) error {
	for {
		_, index := h.cfg.ReportChanged.Get()
		h.reports.Set(h.makeReport())
		timer := time.NewTimer(heartbeat)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
			continue
		case <-h.cfg.ReportChanged.Changed(index):
		}
		timer.Reset(debounce)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

func (h *Hub) makeReport() *controlv1.Report {
	r := h.cfg.Report()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sequence++
	r.Sequence = h.sequence
	r.At = timestamppb.Now()
	r.Term, r.State = h.term.highest()
	r.DesiredVersion = h.desiredVersion
	return r
}
