package load

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestEtcdErrorsAreCountedByKind(t *testing.T) {
	late := status.Error(codes.DeadlineExceeded, "context deadline exceeded")
	if got := registerErrorClass(&etcdError{late}); got != "deadline exceeded" {
		t.Errorf("class of %v = %q", late, got)
	}
	for want, err := range map[string]error{
		"deadline exceeded":             context.DeadlineExceeded,
		"Unavailable":                   status.Error(codes.Unavailable, "dial tcp 127.50.1.3:2379: refused"),
		"other: raft proposal dropped":  status.Error(codes.Unknown, "raft proposal dropped"),
		rpctypes.ErrNoLeader.Error():    rpctypes.ErrNoLeader,
		"other: something without code": errors.New("something without code"),
	} {
		if got := registerErrorClass(&etcdError{err}); got != want {
			t.Errorf("class of %v = %q, want %q", err, got, want)
		}
	}
}

func TestNewEtcdRefuses(t *testing.T) {
	for name, members := range map[string][]string{"none": nil, "empty": {""}, "no port": {"etcd-0:2379", "etcd-1"}} {
		if _, err := NewEtcd(members, "run", nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// elected is a member that has won the election of term 3 and still applies its predecessor's
// entries of term 2; a linearizable read waits for its own entry.
type elected struct {
	pb.UnimplementedKVServer
	pb.UnimplementedMaintenanceServer
	applied atomic.Uint64
}

func (e *elected) Range(_ context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	if !r.GetSerializable() {
		e.applied.Store(3)
	}
	return &pb.RangeResponse{Header: &pb.ResponseHeader{RaftTerm: e.applied.Load()}}, nil
}

func (e *elected) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	return &pb.StatusResponse{Header: &pb.ResponseHeader{MemberId: 7}, Leader: 7, RaftTerm: e.applied.Load()}, nil
}

// TestANewLeaderIsNotTakenForItsPredecessor: a member that says that it leads is
// noted in the term in which it leads.
func TestANewLeaderIsNotTakenForItsPredecessor(t *testing.T) {
	member := &elected{}
	member.applied.Store(2)
	server := grpc.NewServer()
	pb.RegisterKVServer(server, member)
	pb.RegisterMaintenanceServer(server, member)
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(at) }()
	t.Cleanup(server.Stop)

	e, err := NewEtcd([]string{at.Addr().String()}, "run", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	if term, leads, err := e.Leader(t.Context(), 0); term != 3 || !leads || err != nil {
		t.Errorf("term %d, leads %t, %v; want to lead in term 3", term, leads, err)
	}
}
