package overlaystatus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/overlay"
	controlv1 "cadre.dev/proto/cadre/control/v1"
	overlayv1 "cadre.dev/proto/cadre/overlay/v1"
)

const (
	// pingLimit bounds one OverlayPing, lost answers included.
	pingLimit = 20 * time.Second
	// grantTime is how long the other side has to begin an allowed bench.
	grantTime = 30 * time.Second
	// namesShown is how many known Peers an answer about an unknown one lists.
	namesShown = 20
)

// Server answers the overlay calls of controlv1.AgentService for one node. The server
// that registers it authorizes the callers.
type Server struct {
	// Node is nil, or gives nil, before there is one.
	Node func() Node
}

func (s Server) node() (Node, error) {
	if s.Node != nil {
		if n := s.Node(); n != nil {
			return n, nil
		}
	}
	return nil, status.Error(codes.FailedPrecondition, "NO_NODE: the overlay does not run here yet")
}

// find gives the node and the name of one of its Peers.
func (s Server) find(slot string) (Node, overlay.ID, error) {
	node, err := s.node()
	if err != nil {
		return nil, overlay.ID{}, err
	}
	sessions := node.Sessions()
	names := make([]string, 0, len(sessions))
	for _, one := range sessions {
		if one.Peer.Slot == slot {
			return node, one.Peer, nil
		}
		names = append(names, one.Peer.Slot)
	}
	return nil, overlay.ID{}, Unknown(slot, names)
}

// Unknown is the error about a Peer that a node does not have; it says which Peers
// there are instead.
func Unknown(slot string, names []string) error {
	slices.Sort(names)
	known := strings.Join(names[:min(len(names), namesShown)], ", ")
	switch {
	case len(names) == 0:
		known = "none yet"
	case len(names) > namesShown:
		known += fmt.Sprintf(" and %d more", len(names)-namesShown)
	}
	return status.Errorf(codes.NotFound, "PEER_UNKNOWN: no peer %.100q; known peers: %s", slot, known)
}

// OverlayStatus describes one Link or all, ordered by name.
func (s Server) OverlayStatus(_ context.Context, r *controlv1.OverlayStatusRequest) (*controlv1.OverlayStatusResponse, error) {
	if r.GetPeer() != "" {
		if _, _, err := s.find(r.GetPeer()); err != nil {
			return nil, err
		}
	}
	node, err := s.node()
	if err != nil {
		return nil, err
	}
	out := &controlv1.OverlayStatusResponse{}
	for _, one := range node.Sessions() {
		if r.GetPeer() == "" || r.GetPeer() == one.Peer.Slot {
			out.Links = append(out.Links, wireLink(one, node.PathChanges(one.Peer)))
		}
	}
	if err := BoundLinks(out.GetLinks()); err != nil {
		return nil, status.Error(codes.ResourceExhausted, err.Error())
	}
	return out, nil
}

// OverlayPing measures round trips for at most 20 s.
func (s Server) OverlayPing(ctx context.Context, r *controlv1.OverlayPingRequest) (*controlv1.OverlayPingResponse, error) {
	if r.GetCount() < 1 || r.GetCount() > overlay.MaxPings {
		return nil, status.Errorf(codes.InvalidArgument, "count: %d round trips: want 1 to %d", r.GetCount(), overlay.MaxPings)
	}
	node, id, err := s.find(r.GetPeer())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, pingLimit)
	defer cancel()
	res, err := node.Ping(ctx, id, int(r.GetCount()))
	if err != nil {
		return nil, wireError(err)
	}
	return &controlv1.OverlayPingResponse{Ping: wirePing(res)}, nil
}

// OverlayAllowBench lets a Peer begin one bench with this node within 30 s.
func (s Server) OverlayAllowBench(_ context.Context, r *controlv1.OverlayAllowBenchRequest) (*controlv1.OverlayAllowBenchResponse, error) {
	node, id, err := s.find(r.GetPeer())
	if err != nil {
		return nil, err
	}
	if err := node.AllowBench(id, grantTime); err != nil {
		return nil, wireError(err)
	}
	return &controlv1.OverlayAllowBenchResponse{}, nil
}

// OverlayBench measures throughput.
func (s Server) OverlayBench(ctx context.Context, r *controlv1.OverlayBenchRequest) (*controlv1.OverlayBenchResponse, error) {
	direction := overlay.BenchSend
	switch r.GetDirection() {
	case overlayv1.Direction_DIRECTION_SEND:
	case overlayv1.Direction_DIRECTION_RECEIVE:
		direction = overlay.BenchReceive
	default:
		return nil, status.Errorf(codes.InvalidArgument, "direction: %v: want send or receive", r.GetDirection())
	}
	d := r.GetDuration().AsDuration()
	if err := CheckBench(d); err != nil {
		return nil, err
	}
	node, id, err := s.find(r.GetPeer())
	if err != nil {
		return nil, err
	}
	res, err := node.Bench(ctx, id, d, direction)
	if err != nil {
		return nil, wireError(err)
	}
	return &controlv1.OverlayBenchResponse{Bench: wireBench(res)}, nil
}

// CheckBench refuses a duration that no node would accept.
func CheckBench(d time.Duration) error {
	if d < time.Millisecond || d > overlay.MaxBenchTime {
		return status.Errorf(codes.InvalidArgument, "duration: %v: want 1ms to %v", d, overlay.MaxBenchTime)
	}
	return nil
}

// wireError gives a node's error its code.
func wireError(err error) error {
	switch {
	case errors.Is(err, overlay.ErrUnknownPeer): // gone since it was found
		return status.Error(codes.NotFound, "PEER_UNKNOWN: "+err.Error())
	case errors.Is(err, overlay.ErrNoSession):
		return status.Error(codes.FailedPrecondition, "NO_SESSION: "+err.Error())
	case errors.Is(err, overlay.ErrBenchForbidden):
		return status.Error(codes.FailedPrecondition, "BENCH_FORBIDDEN: "+err.Error())
	case errors.Is(err, overlay.ErrBenchBusy):
		return status.Error(codes.ResourceExhausted, "BENCH_BUSY: "+err.Error())
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, err.Error())
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, err.Error())
	}
	return status.Error(codes.FailedPrecondition, err.Error())
}
