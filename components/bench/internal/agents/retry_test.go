package agents

import (
	"errors"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"cadre.dev/core/policy"
)

func TestPausesAreAnAgents(t *testing.T) {
	later, err := status.New(codes.Unavailable, "OVERLOADED: later").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(4 * time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		err         error
		code        string
		try         int
		least, most time.Duration
	}{
		{errors.New("connection refused"), "unreachable", 1, 0, policy.RetryFirst},
		{errors.New("connection refused"), "unreachable", 50, 0, policy.RetryMost},
		{status.Error(codes.PermissionDenied, "INSTANCE_CONFLICT: held"), "INSTANCE_CONFLICT", 50, 0, policy.RetryTurn},
		{later.Err(), "Unavailable", 1, 4 * time.Second, 4*time.Second + policy.RetryFirst},
	} {
		if got := codeOf(c.err); got != c.code {
			t.Errorf("%v has code %s, want %s", c.err, got, c.code)
		}
		for range 200 {
			if got := pauseAfter(c.err, c.code, c.try); got < c.least || got > c.most+time.Millisecond {
				t.Fatalf("%v at try %d: %v, want %v to %v", c.err, c.try, got, c.least, c.most)
			}
		}
	}
}
