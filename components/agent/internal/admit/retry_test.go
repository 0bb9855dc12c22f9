package admit

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"cadre.dev/core/policy"
	"cadre.dev/overlay/grpcconn"
)

func overloaded(t *testing.T, wait time.Duration) error {
	t.Helper()
	s, err := status.New(codes.Unavailable, "OVERLOADED: try again").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Errorf("admit: %w", s.Err())
}

// TestINP06_PausesSpreadAndHonourTheCoordinator: a thousand agents that were turned
// away together come back spread over the whole range, and none too early.
func TestINP06_PausesSpreadAndHonourTheCoordinator(t *testing.T) {
	wait := 2 * time.Second
	var buckets [10]int
	for range 1000 {
		pause := pauseAfter(overloaded(t, wait), 20)
		if pause < wait || pause > wait+policy.RetryMost+time.Millisecond {
			t.Fatalf("pause %v", pause)
		}
		buckets[min(int((pause-wait)*10/policy.RetryMost), 9)]++
	}
	for i, n := range buckets {
		if n < 50 || n > 160 {
			t.Errorf("tenth %d of the range has %d of 1000", i, n)
		}
	}
	if got := grpcconn.RetryAfter(overloaded(t, time.Hour), policy.RetryWait); got != policy.RetryWait {
		t.Errorf("a coordinator puts a boot off for %v", got)
	}
	if got := grpcconn.RetryAfter(overloaded(t, -time.Hour), policy.RetryWait); got != 0 {
		t.Errorf("a negative wait is %v", got)
	}
}

func TestPausesGrowAndStayShortWhileItIsNotThisBootsTurn(t *testing.T) {
	longest := func(err error, attempt int) (most time.Duration) {
		for range 300 {
			most = max(most, pauseAfter(err, attempt))
		}
		return most
	}
	if got := longest(errors.New("reach coordinator: refused"), 1); got > policy.RetryFirst+time.Millisecond {
		t.Errorf("first pause %v", got)
	}
	if got := longest(errors.New("reach coordinator: refused"), 100); got < policy.RetryMost*8/10 || got > policy.RetryMost+time.Millisecond {
		t.Errorf("pauses grow to %v", got)
	}
	for _, code := range []string{"INSTANCE_MISMATCH", "INSTANCE_CONFLICT", "REVISION_NOT_ALLOWED"} {
		if got := longest(errors.New(code+": not now"), 100); got > policy.RetryTurn+time.Millisecond {
			t.Errorf("%s: pauses grow to %v", code, got)
		}
		if waitsFor(code) == waitsFor("X") {
			t.Errorf("%s: the log does not name the awaited event", code)
		}
	}
}
