package control

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// After its farewell a Boot does not count as alive, even before the records have the farewell. A
// later report of the Boot does not revert that.
func TestAfterAFarewellABootGetsNothing(t *testing.T) {
	s, heard := service(t)
	ctx := from(t, "pg", "pg-0", "boot")
	defer heard.Connect("pg-0", "boot")()
	report := &controlv1.ReportRequest{Report: &controlv1.Report{Sequence: 1}}
	if _, err := s.Report(ctx, report); err != nil || !heard.Live("pg-0", "boot") {
		t.Fatalf("before: %v", err)
	}
	if _, err := s.Farewell(ctx, nil); status.Code(err) != codes.Unimplemented || !heard.Live("pg-0", "boot") {
		t.Errorf("where none are taken: %v", err)
	}
	var said []string
	failing := errors.New("no leader")
	s.ServeFarewell(func(_ context.Context, group, slot, boot string) error {
		said = append(said, group+" "+slot+" "+boot)
		return failing
	})
	if _, err := s.Farewell(ctx, nil); status.Code(err) != codes.Unavailable {
		t.Errorf("while the records are not writable: %v", err)
	}
	failing = nil
	if _, err := s.Farewell(ctx, nil); err != nil {
		t.Error(err)
	}
	if len(said) != 2 || said[0] != "pg pg-0 boot" {
		t.Errorf("said %q", said)
	}
	if _, err := s.Farewell(t.Context(), nil); status.Code(err) != codes.Unauthenticated {
		t.Errorf("without a caller: %v", err)
	}
	for name, call := range map[string]func() error{
		"report":  func() error { _, err := s.Report(ctx, report); return err },
		"desired": func() error { _, err := s.GetDesired(ctx, nil); return err },
		"peers":   func() error { _, err := s.GetPeers(ctx, nil); return err },
	} {
		if err := call(); status.Code(err) != codes.FailedPrecondition {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, known := heard.Of("pg-0"); known || heard.Live("pg-0", "boot") || heard.HighWater().Agents != 0 {
		t.Error("it is counted as alive")
	}
	if _, err := s.Farewell(from(t, "pg", "pg-0", "another"), nil); err != nil {
		t.Errorf("of a boot that is not the slot: %v", err)
	}
	heard.Put("pg-0", "next", &controlv1.Report{Sequence: 1})
	defer heard.Connect("pg-0", "next")()
	if !heard.Live("pg-0", "next") {
		t.Error("its successor is not heard")
	}
}
