package control

import (
	"context"
	"math/rand/v2"
	"time"

	controlv1 "cadre.dev/proto/cadre/control/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	// debounce joins changes that come together into one report.
	debounce = 20 * time.Millisecond
	// heartbeat is the longest time between two reports; jittered downwards by a quarter, so
	// that agents that began together do not stay in step.
	heartbeat = 5 * time.Second
	// reportAgain is the pause after a report that a coordinator did not take.
	reportAgain = 2 * time.Second
)

// update is the next message to coordinators: a report, or a heartbeat that confirms the last one.
type update struct {
	report *controlv1.Report
	// content is the sequence of the first report with the same content.
	content uint64
}

// runReports makes one report for all coordinators after each change that matters to
// them, and at least every heartbeat.
func (h *Hub) runReports(ctx context.Context) error {
	h.makeReport(true)
	for {
		beat := time.NewTimer(heartbeat*3/4 + rand.N(heartbeat/4)) //nolint:gosec // jitter is no secret
		for waiting := true; waiting; {
			_, index := h.cfg.ReportChanged.Get()
			if h.makeReport(false) {
				break
			}
			select {
			case <-ctx.Done():
				beat.Stop()
				return nil
			case <-beat.C:
				h.makeReport(true)
				waiting = false
			case <-h.cfg.ReportChanged.Changed(index):
				if !wait(ctx, debounce) {
					return nil
				}
			}
		}
		beat.Stop()
	}
}

// wait reports whether d passed before ctx ended.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// makeReport makes a report and returns whether it is published: always when it is due, else when
// it has a change that cannot wait for the heartbeat.
func (h *Hub) makeReport(due bool) bool {
	r := h.cfg.Report()
	h.mu.Lock()
	defer h.mu.Unlock()
	r.Term, r.State = h.term.highest()
	r.DesiredVersion = h.desiredVersion
	if !due && sameUrgent(r, h.content) {
		return false
	}
	h.sequence++
	if content := contentOf(r); h.contentSequence == 0 || !proto.Equal(content, h.content) {
		h.content, h.contentSequence = content, h.sequence
	}
	r.Sequence, r.At = h.sequence, timestamppb.Now()
	h.reports.Set(update{report: r, content: h.contentSequence})
	return true
}

// contentOf returns a report without the fields that change in each heartbeat. Of the time since
// all is healthy it keeps only whether all is healthy.
func contentOf(r *controlv1.Report) *controlv1.Report {
	out := proto.CloneOf(r)
	out.HealthyFor = whether(r)
	return out
}

func whether(r *controlv1.Report) *durationpb.Duration {
	if r.GetHealthyFor().AsDuration() > 0 {
		return durationpb.New(1)
	}
	return nil
}

// sameUrgent reports that r and content differ at most in fields that wait for the heartbeat: a
// replica's lag in bytes, the version of the records, and the texts next to a verdict. These decide
// nothing, and an error may name another port each time. sameUrgent changes r while it runs and
// restores it: a copy of each report would cost more than the rest of the comparison.
func sameUrgent(r, content *controlv1.Report) bool {
	if content == nil {
		return false
	}
	healthy, term, state, version := r.HealthyFor, r.Term, r.State, r.DesiredVersion
	r.HealthyFor, r.Term, r.State, r.DesiredVersion = whether(r), content.GetTerm(), content.GetState(), content.GetDesiredVersion()
	defer func() { r.HealthyFor, r.Term, r.State, r.DesiredVersion = healthy, term, state, version }()
	if mine, theirs := r.GetMember(), content.GetMember(); mine != nil && theirs != nil {
		lag, message := mine.LagBytes, mine.Message
		mine.LagBytes, mine.Message = theirs.LagBytes, theirs.Message
		defer func() { mine.LagBytes, mine.Message = lag, message }()
	}
	if mine, theirs := r.GetChecks(), content.GetChecks(); len(mine) == len(theirs) {
		messages := make([]string, len(mine))
		for i, c := range mine {
			messages[i], c.Message = c.GetMessage(), theirs[i].GetMessage()
		}
		defer func() {
			for i, c := range mine {
				c.Message = messages[i]
			}
		}()
	}
	return proto.Equal(r, content)
}

// reportLoop sends reports to one coordinator.
func (s *session) reportLoop(ctx context.Context) {
	var index uint64
	for {
		next, now, err := s.hub.reports.Wait(ctx, index)
		if err != nil {
			return
		}
		index = now
		if next.report == nil {
			continue
		}
		if err := s.report(ctx, next); err != nil {
			index = 0 // retry with the newest report of that time
			if !wait(ctx, reportAgain) {
				return
			}
		}
	}
}

// report confirms the last report if this coordinator has it, else it sends the whole report.
func (s *session) report(ctx context.Context, next update) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	req := &controlv1.ReportRequest{Report: next.report}
	if s.last.content == next.content {
		req = &controlv1.ReportRequest{Heartbeat: &controlv1.Heartbeat{
			Sequence: next.report.GetSequence(), Report: s.last.report.GetSequence(),
			HealthyMs: uint64(max(0, next.report.GetHealthyFor().AsDuration().Milliseconds())),
		}}
	}
	answer, err := s.client.Report(ctx, req)
	if err == nil && answer.GetReportWanted() {
		req = &controlv1.ReportRequest{Report: next.report}
		answer, err = s.client.Report(ctx, req)
	}
	s.note(ctx, "report", err)
	if err != nil {
		s.last = update{}
		return err
	}
	switch {
	case !answer.GetHeartbeats():
		s.last = update{} // of an earlier version
	case req.GetReport() != nil:
		s.last = next
	}
	s.hub.term.note(answer.GetTerm())
	if answer.GetDesiredVersion() > s.hub.known().GetKnownVersion() || answer.GetPeersVersion() > s.mapVersion() {
		s.again()
	}
	return nil
}
