package load

import (
	"context"
	"errors"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
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
