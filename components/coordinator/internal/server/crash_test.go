package server

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/contain"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

// lockedBuffer is the server's log, safe to read during a test.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// A call whose handler panics returns an id, and the log has the stack with this id. The
// coordinator continues to serve, over the same connection too.
func TestAPanicOfAHandlerFailsItsOwnCall(t *testing.T) {
	a := newAPI(t)
	var (
		log     lockedBuffer
		crash   atomic.Bool
		counted atomic.Int64
	)
	a.cfg.Panics = contain.New(slog.New(slog.NewTextHandler(&log, nil)), func(string) { counted.Add(1) })
	storeFor := a.cfg.StoreFor
	a.cfg.StoreFor = func(token string) (store.Store, error) {
		if crash.Load() {
			panic("a value of a caller")
		}
		return storeFor(token)
	}
	cc := dialAPI(t, a.listen(t))
	defer func() { _ = cc.Close() }()
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), tokenHeader, operatorToken), time.Minute)
	defer cancel()
	client := apiv1.NewClusterServiceClient(cc)
	if _, err := client.ListGroups(ctx, &apiv1.ListGroupsRequest{}); err != nil {
		t.Fatal(err)
	}

	crash.Store(true)
	for range 2 {
		_, err := client.ListGroups(ctx, &apiv1.ListGroupsRequest{})
		id := regexp.MustCompile(`the id ([0-9a-f]{8})`).FindStringSubmatch(message(err))
		if status.Code(err) != codes.Internal || id == nil || strings.Contains(message(err), "a value of a caller") {
			t.Fatalf("the call was answered with %v", err)
		}
		if text := log.String(); strings.Count(text, "stack=") != 1 || !strings.Contains(text, id[1]) || !strings.Contains(text, "ListGroups") {
			t.Errorf("the log has not one stack under the id %s: %s", id[1], text)
		}
	}
	stream, err := client.WatchGroup(ctx, &apiv1.WatchGroupRequest{Group: "pg"})
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.Internal || counted.Load() != 3 {
		t.Errorf("a stream ended with %v, and %d panics were counted", err, counted.Load())
	}

	crash.Store(false)
	if _, err := client.ListGroups(ctx, &apiv1.ListGroupsRequest{}); err != nil {
		t.Errorf("after the panics: %v", err)
	}
	if operators, _ := a.Connections(); operators != 1 {
		t.Errorf("%d connections of operators are counted", operators)
	}
}

// The dry run of a spec with such a number once crashed the coordinator.
func TestINP03_ADryRunWithAnExtremeNumberIsRefusedByItsField(t *testing.T) {
	a := newAPI(t)
	ctx := as(t.Context(), operatorToken)
	for _, n := range []string{"9223372036854775807", "2147483648", "-1", "1e400", "1e999999999"} {
		raw := bytes.Replace(specJSON(t), []byte(`"replicas":3`), []byte(`"replicas":`+n), 1)
		_, err := a.ApplyGroup(ctx, &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: raw, DryRun: true})
		_, planned := a.PlanRollout(ctx, &apiv1.PlanRolloutRequest{Group: "pg", SpecJson: raw})
		for what, err := range map[string]error{"apply": err, "plan": planned} {
			if status.Code(err) != codes.InvalidArgument || !strings.Contains(message(err), "replicas") {
				t.Errorf("%s of replicas %s: %v", what, n, err)
			}
		}
		put(a, t, store.GroupSpecKey("pg"), rawSpec(raw))
		if _, err := a.PlanRollout(ctx, &apiv1.PlanRolloutRequest{Group: "pg"}); err == nil || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(message(err), "replicas") {
			t.Errorf("plan of a plain KV edit with replicas %s: %v", n, err)
		}
	}
}

type rawSpec []byte

func (r rawSpec) MarshalJSON() ([]byte, error) { return r, nil }

// A spec whose decoder panics is not reported as the caller's fault, and the panic is counted.
func TestAPanicOfTheReaderOfASpecIsNoRefusal(t *testing.T) {
	counted := 0
	panics := contain.New(slog.New(slog.DiscardHandler), func(string) { counted++ })
	crash := contain.Call(func() error { panic("index out of range") })
	if err := panics.Do("api", func() error { return refused(crash) }); status.Code(err) != codes.Internal || counted != 1 {
		t.Errorf("%v, and %d panics are counted", err, counted)
	}
}
