package overlaystatus

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// Asked is a node that answers overlay calls: this process's own, a [Server], or one
// behind a control session, a [Remote]. Errors carry codes of their own.
type Asked interface {
	OverlayStatus(ctx context.Context, r *controlv1.OverlayStatusRequest) (*controlv1.OverlayStatusResponse, error)
	OverlayPing(ctx context.Context, r *controlv1.OverlayPingRequest) (*controlv1.OverlayPingResponse, error)
	OverlayAllowBench(ctx context.Context, r *controlv1.OverlayAllowBenchRequest) (*controlv1.OverlayAllowBenchResponse, error)
	OverlayBench(ctx context.Context, r *controlv1.OverlayBenchRequest) (*controlv1.OverlayBenchResponse, error)
}

var (
	_ Asked = Server{}
	_ Asked = Remote{}
)

const (
	// quickLimit bounds a call that measures nothing.
	quickLimit = 5 * time.Second
	// slowLimit bounds a slow request; the node's own bounds are lower.
	slowLimit = 25 * time.Second
	// maxAnswer bounds one answer.
	maxAnswer = 4 << 20
	// maxMetrics bounds an agent's figures.
	maxMetrics = 256 << 10
)

// Remote asks an agent, and bounds its answers.
type Remote struct {
	// Slot is the agent's, for errors.
	Slot  string
	Agent controlv1.AgentServiceClient
}

// OverlayStatus implements Asked.
func (r Remote) OverlayStatus(ctx context.Context, req *controlv1.OverlayStatusRequest) (*controlv1.OverlayStatusResponse, error) {
	out, err := ask(ctx, r, quickLimit, req, r.Agent.OverlayStatus)
	if err == nil {
		err = r.bound(BoundLinks(out.GetLinks()))
	}
	return out, err
}

// OverlayPing implements Asked.
func (r Remote) OverlayPing(ctx context.Context, req *controlv1.OverlayPingRequest) (*controlv1.OverlayPingResponse, error) {
	out, err := ask(ctx, r, slowLimit, req, r.Agent.OverlayPing)
	if err == nil {
		err = r.bound(BoundPing(out.GetPing()))
	}
	return out, err
}

// OverlayAllowBench implements Asked.
func (r Remote) OverlayAllowBench(ctx context.Context, req *controlv1.OverlayAllowBenchRequest) (*controlv1.OverlayAllowBenchResponse, error) {
	return ask(ctx, r, quickLimit, req, r.Agent.OverlayAllowBench)
}

// OverlayBench implements Asked.
func (r Remote) OverlayBench(ctx context.Context, req *controlv1.OverlayBenchRequest) (*controlv1.OverlayBenchResponse, error) {
	out, err := ask(ctx, r, slowLimit, req, r.Agent.OverlayBench)
	if err == nil {
		BoundBench(out.GetBench())
	}
	return out, err
}

// GetMetrics returns the agent's figures, of any content and at most maxMetrics bytes.
func (r Remote) GetMetrics(ctx context.Context) ([]byte, error) {
	out, err := ask(ctx, r, quickLimit, &controlv1.GetMetricsRequest{}, r.Agent.GetMetrics)
	if err == nil && len(out.GetText()) > maxMetrics {
		err = r.bound(fmt.Errorf("%d bytes of figures, at most %d", len(out.GetText()), maxMetrics))
	}
	return out.GetText(), err
}

// ask makes one call within limit.
func ask[Q, A any](ctx context.Context, r Remote, limit time.Duration, req Q, call func(context.Context, Q, ...grpc.CallOption) (*A, error)) (*A, error) {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out, err := call(bounded, req, grpc.MaxCallRecvMsgSize(maxAnswer))
	if err != nil {
		return nil, r.fault(ctx, err)
	}
	return out, nil
}

func (r Remote) bound(err error) error {
	if err == nil {
		return nil
	}
	return status.Errorf(codes.FailedPrecondition, "%s: the agent's answer is invalid: %v", r.Slot, err)
}

// fault describes an error at the agent or on the way there. Its code is never
// Unavailable: for an operator that code means that no coordinator answers.
func (r Remote) fault(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	s := status.Convert(err)
	switch s.Code() {
	case codes.NotFound, codes.InvalidArgument, codes.FailedPrecondition, codes.ResourceExhausted:
		return status.Errorf(s.Code(), "%s: %s", r.Slot, plain(s.Message()))
	case codes.Unimplemented:
		return status.Errorf(codes.FailedPrecondition, "AGENT_TOO_OLD: the agent of %s does not know this call", r.Slot)
	case codes.DeadlineExceeded:
		return status.Errorf(codes.FailedPrecondition, "AGENT_SILENT: the agent of %s did not answer in time", r.Slot)
	default:
		return status.Errorf(codes.FailedPrecondition, "AGENT_GONE: the control session with %s ended meanwhile: %s", r.Slot, plain(s.Message()))
	}
}

// plain is a foreign text that may go to a terminal.
func plain(text string) string {
	truncateText(&text)
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
}
