package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	consul "github.com/hashicorp/consul/api"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cadre.dev/coordinator/internal/keys"
	"cadre.dev/coordinator/internal/measure"
	"cadre.dev/coordinator/internal/observe"
	"cadre.dev/coordinator/internal/reports"
	"cadre.dev/coordinator/internal/specvalidate"
	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/coordinator/internal/watermark"
	"cadre.dev/core/appcompose"
	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
	"cadre.dev/overlaystatus"
	"cadre.dev/platform"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

const operatorToken = "0d3c9f5e-3f1b-4a53-8f4e-2f3f1f0a7b11"

// ownApp is the coordinators' own app.
var ownApp = strings.Repeat("c0", 20)

type emptyCloud struct{}

func (emptyCloud) List(context.Context, string) ([]platform.Instance, error) { return nil, nil }

// api is the server on a real Consul with ACLs, with the tokens of the test's callers.
type api struct {
	// consulAddr and consulToken reach Consul with all rights.
	consulAddr, consulToken string
	*Server
	consul   *consul.Client // has every right
	issuer   *tokens.Issuer
	workload string
	caPEM    []byte // of listen
	// offset is added to the real time for the server's clock.
	mu     sync.Mutex
	offset time.Duration
}

func (a *api) now() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return time.Now().Add(a.offset)
}

func newAPI(t testing.TB) *api {
	t.Helper()
	running := storetest.StartConsulACL(t)
	log := slog.New(slog.DiscardHandler)
	own, err := store.NewConsul(store.ConsulConfig{Address: running.Addr, Token: running.ManagementToken})
	if err != nil {
		t.Fatal(err)
	}
	a := &api{consulAddr: running.Addr, consulToken: running.ManagementToken}
	if a.consul, err = consul.NewClient(&consul.Config{Address: running.Addr, Token: running.ManagementToken}); err != nil {
		t.Fatal(err)
	}
	if a.issuer, err = tokens.New(running.Addr, running.ManagementToken, tokens.TTL); err != nil {
		t.Fatal(err)
	}
	token, err := a.issuer.Slot(t.Context(), tokens.Holder{Spec: spec(t), Slot: "pg-0"})
	if err != nil {
		t.Fatal(err)
	}
	a.workload = token.Secret
	views := view.NewWatcher(own, log)
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { _ = views.Run(ctx) })
	t.Cleanup(func() { cancel(); watching.Wait() })
	for v, changed := views.Latest(); v == nil; v, changed = views.Latest() {
		<-changed
	}
	sum := sha256.Sum256([]byte(operatorToken))
	agents := reports.New(time.Now)
	a.Server = New(Config{
		Watermark: watermark.New(own, agents, time.Now),
		Cluster:   "demo", Slot: "coordinator-0", Root: new(keys.Root), OperatorTokenSHA256: hex.EncodeToString(sum[:]), Store: own, Views: views,
		Platform: observe.NewPlatform(emptyCloud{}, time.Now, time.Second), Reports: agents, Timing: rollout.DefaultTiming(),
		Tokens: a.issuer, Now: a.now, Log: log, Validator: specvalidate.New(ownApp, nil), Measure: measure.New("demo", appcompose.Rules{}),
		Overlay: &fakeOverlay{}, Agents: func(string) (overlaystatus.Asked, bool) { return nil, false },
		Consul: running.Addr, Datacenter: "dc1", Transport: http.DefaultTransport,
		StoreFor: func(token string) (store.Store, error) {
			return store.NewConsul(store.ConsulConfig{Address: running.Addr, Token: token})
		},
	})
	return a
}

func spec(t testing.TB) group.Spec {
	t.Helper()
	s := group.Spec{
		Name: "pg", Platform: "phala", Replicas: 3,
		Template: group.Template{
			Compose:      "services:\n  pg:\n    image: example.org/pg@sha256:" + strings.Repeat("a", 64) + "\n",
			InstanceType: "tdx.small", OSImage: "dstack-0.5.7",
		},
		Workload: group.Workload{Kind: group.WorkloadPatroni},
	}
	s.Normalize()
	return s
}

func specJSON(t testing.TB) []byte {
	t.Helper()
	raw, err := json.Marshal(spec(t))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// The server rejects an error of lint with its place in the text, for every client.
func TestATT16_ApplyRefusesWhatLintRefuses(t *testing.T) {
	a := newAPI(t)
	for want, change := range map[string]func(*group.Template){
		"template.compose:4:17: error: services.pg.privileged lets the container reach every device":         func(t *group.Template) { t.Compose += "    privileged: true\n" },
		"template.compose:4:14: error: services.pg.command takes $RUN":                                       func(t *group.Template) { t.Compose += "    command: $RUN\n" },
		"template.compose:4:22: error: services.pg.environment.X takes ${DB_HOST:?}, and env has no DB_HOST": func(t *group.Template) { t.Compose += "    environment: {X: \"${DB_HOST:?}\"}\n" },
		`template.env["LD_PRELOAD"]: is loaded into the guest's root shell`:                                  func(t *group.Template) { t.Env = map[string]string{"LD_PRELOAD": "x"} },
	} {
		s := spec(t)
		change(&s.Template)
		raw, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		_, err = a.ApplyGroup(as(t.Context(), operatorToken), &apiv1.ApplyGroupRequest{Group: s.Name, SpecJson: raw, DryRun: true})
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		if _, err := a.PlanRollout(as(t.Context(), operatorToken), &apiv1.PlanRolloutRequest{Group: s.Name, SpecJson: raw}); !strings.Contains(message(err), want) {
			t.Errorf("a plan of it: %v, want %s", err, want)
		}
	}
}

// The answer to an apply lists the names that env and text do not share, also for a client that
// does not lint.
func TestApplyWarnsOfNamesThatEnvAndTextDoNotShare(t *testing.T) {
	a := newAPI(t)
	s := spec(t)
	s.Template.Compose += "    environment: {X: $DB_HOST}\n"
	s.Template.Env = map[string]string{"DB_HSOT": "db"}
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	got, err := a.ApplyGroup(as(t.Context(), operatorToken), &apiv1.ApplyGroupRequest{Group: s.Name, SpecJson: raw, DryRun: true})
	warned := strings.Join(got.GetWarnings(), "\n")
	if err != nil || !strings.Contains(warned, "env has no DB_HOST") || !strings.Contains(warned, "DB_HSOT is taken nowhere") {
		t.Errorf("warnings %q, %v", got.GetWarnings(), err)
	}
}

// A CVM of the coordinators' app gets the cluster's keys from its guest agent.
func TestIDN07_ApplyRefusesTheCoordinatorsOwnApp(t *testing.T) {
	a := newAPI(t)
	ctx := as(t.Context(), operatorToken)
	s := spec(t)
	s.AppID = ownApp
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, dry := range []bool{true, false} {
		_, err = a.ApplyGroup(ctx, &apiv1.ApplyGroupRequest{Group: s.Name, SpecJson: raw, DryRun: dry})
		if status.Code(err) != codes.InvalidArgument || !strings.HasPrefix(message(err), "IDENTITY_FORBIDDEN: ") || !strings.Contains(message(err), "app_id: ") {
			t.Errorf("apply, dry run %v: %v", dry, err)
		}
	}
	if _, err := a.PlanRollout(ctx, &apiv1.PlanRolloutRequest{Group: s.Name, SpecJson: raw}); !strings.HasPrefix(message(err), "IDENTITY_FORBIDDEN: ") {
		t.Errorf("plan: %v", err)
	}
	if _, err := a.cfg.Store.Get(t.Context(), store.GroupSpecKey(s.Name)); err == nil {
		t.Error("it was stored")
	}
	put(a, t, store.GroupSpecKey(s.Name), s)
	if _, err := a.PlanRollout(ctx, &apiv1.PlanRolloutRequest{Group: s.Name}); status.Code(err) != codes.FailedPrecondition || !strings.HasPrefix(message(err), "IDENTITY_FORBIDDEN: ") {
		t.Errorf("plan of a plain KV edit: %v", err)
	}
	s.AppID = strings.Repeat("ab", 20)
	if raw, err = json.Marshal(s); err != nil {
		t.Fatal(err)
	}
	if _, err := a.ApplyGroup(ctx, &apiv1.ApplyGroupRequest{Group: s.Name, SpecJson: raw}); err != nil {
		t.Errorf("another app: %v", err)
	}
}

// as returns the context of a call with a token; "": without one.
func as(ctx context.Context, token string) context.Context {
	if token == "" {
		return ctx
	}
	return metadata.NewIncomingContext(ctx, metadata.Pairs(tokenHeader, token))
}

// watch collects the messages of a watch until its context ends.
type watch struct {
	grpc.ServerStream
	ctx  context.Context //nolint:containedctx // a stream has one
	sent chan *apiv1.WatchGroupResponse
}

func (w *watch) Context() context.Context { return w.ctx }

func (w *watch) Send(r *apiv1.WatchGroupResponse) error {
	select {
	case w.sent <- r:
	default:
	}
	return nil
}

// every returns each call about the group pg by name.
func (a *api) every(t *testing.T) map[string]func(ctx context.Context) error {
	raw := specJSON(t)
	return map[string]func(ctx context.Context) error{
		"ApplyGroup": func(ctx context.Context) error {
			_, err := a.ApplyGroup(ctx, &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: raw})
			return err
		},
		"ApplyGroup, dry run": func(ctx context.Context) error {
			_, err := a.ApplyGroup(ctx, &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: raw, DryRun: true})
			return err
		},
		"GetGroup": func(ctx context.Context) error {
			_, err := a.GetGroup(ctx, &apiv1.GetGroupRequest{Group: "pg"})
			return err
		},
		"ListGroups": func(ctx context.Context) error {
			_, err := a.ListGroups(ctx, &apiv1.ListGroupsRequest{})
			return err
		},
		"PlanRollout": func(ctx context.Context) error {
			_, err := a.PlanRollout(ctx, &apiv1.PlanRolloutRequest{Group: "pg"})
			return err
		},
		"PlanRollout with a spec": func(ctx context.Context) error {
			_, err := a.PlanRollout(ctx, &apiv1.PlanRolloutRequest{Group: "pg", SpecJson: raw})
			return err
		},
		"WatchGroup": func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
			defer cancel()
			return a.WatchGroup(&apiv1.WatchGroupRequest{Group: "pg"}, &watch{ctx: ctx, sent: make(chan *apiv1.WatchGroupResponse, 1)})
		},
		"ListRollouts": func(ctx context.Context) error {
			_, err := a.ListRollouts(ctx, &apiv1.ListRolloutsRequest{Group: "pg"})
			return err
		},
		"ListInstances": func(ctx context.Context) error {
			_, err := a.ListInstances(ctx, &apiv1.ListInstancesRequest{})
			return err
		},
		"GetCluster": func(ctx context.Context) error {
			_, err := a.GetCluster(ctx, &apiv1.GetClusterRequest{})
			return err
		},
		"GetOverlay": func(ctx context.Context) error {
			_, err := a.GetOverlay(ctx, &apiv1.GetOverlayRequest{})
			return err
		},
		"PingPeer": func(ctx context.Context) error {
			_, err := a.PingPeer(ctx, &apiv1.PingPeerRequest{Peer: "pg-0"})
			return err
		},
		"BenchPeer": func(ctx context.Context) error {
			_, err := a.BenchPeer(ctx, &apiv1.BenchPeerRequest{Peer: "pg-0", Direction: 1, Duration: durationpb.New(time.Second)})
			return err
		},
		"ListSecrets": func(ctx context.Context) error {
			_, err := a.ListSecrets(ctx, &apiv1.ListSecretsRequest{})
			return err
		},
		"ListSecrets of a group": func(ctx context.Context) error {
			_, err := a.ListSecrets(ctx, &apiv1.ListSecretsRequest{Group: "pg"})
			return err
		},
		"RotateSecret": func(ctx context.Context) error {
			_, err := a.RotateSecret(ctx, &apiv1.RotateSecretRequest{Group: "pg", Name: "superuser"})
			return err
		},
		"RotateSecret of the cluster": func(ctx context.Context) error {
			_, err := a.RotateSecret(ctx, &apiv1.RotateSecretRequest{Group: "cluster", Name: "gossip"})
			return err
		},
		"GetOverlay of a slot": func(ctx context.Context) error {
			_, err := a.GetOverlay(ctx, &apiv1.GetOverlayRequest{Slot: "pg-0"})
			return absent(err)
		},
		"PingPeer from a slot": func(ctx context.Context) error {
			_, err := a.PingPeer(ctx, &apiv1.PingPeerRequest{Slot: "pg-0", Peer: "pg-1"})
			return absent(err)
		},
		"BenchPeer from a slot": func(ctx context.Context) error {
			_, err := a.BenchPeer(ctx, &apiv1.BenchPeerRequest{Slot: "pg-0", Peer: "pg-1", Direction: 1, Duration: durationpb.New(time.Second)})
			return absent(err)
		},
		// Without the Slot's record an operator gets the error that the slot does not exist.
		"DescribeInstance": func(ctx context.Context) error {
			_, err := a.DescribeInstance(ctx, &apiv1.DescribeInstanceRequest{Slot: "pg-0"})
			return absent(err)
		},
		"ListAdmissions": func(ctx context.Context) error {
			_, err := a.ListAdmissions(ctx, &apiv1.ListAdmissionsRequest{})
			return err
		},
		"ExplainAdmission": func(ctx context.Context) error {
			_, err := a.ExplainAdmission(ctx, &apiv1.ExplainAdmissionRequest{Slot: "pg-0"})
			return absent(err)
		},
		"ApproveRevision": func(ctx context.Context) error {
			_, err := a.ApproveRevision(ctx, &apiv1.ApproveRevisionRequest{Revision: spec(t).Revision()})
			return err
		},
		"Revoke": func(ctx context.Context) error {
			_, err := a.Revoke(ctx, &apiv1.RevokeRequest{Kind: 1, Id: "0d", Reason: "test"})
			return err
		},
		"Unrevoke": func(ctx context.Context) error {
			_, err := a.Unrevoke(ctx, &apiv1.UnrevokeRequest{Kind: 1, Id: "0d"})
			return err
		},
		"ReleaseSlot": func(ctx context.Context) error {
			_, err := a.ReleaseSlot(ctx, &apiv1.ReleaseSlotRequest{Slot: "pg-0", Reason: "r"})
			return absent(err)
		},
		"RaiseFloor": func(ctx context.Context) error {
			_, err := a.RaiseFloor(ctx, &apiv1.RaiseFloorRequest{NotBefore: timestamppb.New(time.Unix(1, 0))})
			return err
		},
		"ListOperations": func(ctx context.Context) error {
			_, err := a.ListOperations(ctx, &apiv1.ListOperationsRequest{})
			return err
		},
		"GetOperation": func(ctx context.Context) error {
			_, err := a.GetOperation(ctx, &apiv1.GetOperationRequest{Operation: "pg.1"})
			return absent(err)
		},
		"ResolveOperation": func(ctx context.Context) error {
			_, err := a.ResolveOperation(ctx, &apiv1.ResolveOperationRequest{Operation: "pg.1", As: "done", Reason: "r"})
			return absent(err)
		},
		"ReplaceInstance": func(ctx context.Context) error {
			_, err := a.ReplaceInstance(ctx, &apiv1.ReplaceInstanceRequest{Slot: "pg-0", Reason: "r"})
			return absent(err)
		},
		"PromoteRollout": func(ctx context.Context) error {
			_, err := a.PromoteRollout(ctx, &apiv1.PromoteRolloutRequest{Group: "pg"})
			return err
		},
		"RetryRollout": func(ctx context.Context) error {
			_, err := a.RetryRollout(ctx, &apiv1.RetryRolloutRequest{Group: "pg", Reason: "r"})
			return err
		},
		"DeleteGroup": func(ctx context.Context) error {
			_, err := a.DeleteGroup(ctx, &apiv1.DeleteGroupRequest{Group: "pg", KeepCvms: true, Reason: "r"})
			return err
		},
		"ListAdoptable": func(ctx context.Context) error {
			_, err := a.ListAdoptable(ctx, &apiv1.ListAdoptableRequest{Group: "pg"})
			return err
		},
		"AdoptGroup": func(ctx context.Context) error {
			_, err := a.AdoptGroup(ctx, &apiv1.AdoptGroupRequest{Group: "web", Reason: "r"})
			return absent(err)
		},
		"DeleteGroup, taken back": func(ctx context.Context) error {
			_, err := a.DeleteGroup(ctx, &apiv1.DeleteGroupRequest{Group: "pg", Cancel: true})
			return err
		},
		"ApplyDeployment": func(ctx context.Context) error {
			_, err := deploymentService{s: a.Server}.ApplyDeployment(ctx, &apiv1.ApplyDeploymentRequest{Name: "shop", DryRun: true, Groups: []*apiv1.DeploymentGroup{{Group: "pg", SpecJson: raw}}})
			return err
		},
		"ListQueue": func(ctx context.Context) error {
			_, err := queueService{s: a.Server}.ListQueue(ctx, &apiv1.ListQueueRequest{})
			return err
		},
		"GetLimits": func(ctx context.Context) error {
			_, err := queueService{s: a.Server}.GetLimits(ctx, &apiv1.GetLimitsRequest{})
			return err
		},
		"RestartInstance": func(ctx context.Context) error {
			_, err := a.RestartInstance(ctx, &apiv1.RestartInstanceRequest{Slot: "pg-0"})
			return absent(err)
		},
		"UpdateInstance": func(ctx context.Context) error {
			_, err := a.UpdateInstance(ctx, &apiv1.UpdateInstanceRequest{Slot: "pg-0"})
			return absent(err)
		},
	}
}

func absent(err error) error {
	if status.Code(err) == codes.NotFound {
		return nil
	}
	return err
}

// TestEveryCallAuthenticatesItsCaller: only an operator may call.
func TestEveryCallAuthenticatesItsCaller(t *testing.T) {
	a := newAPI(t)
	if _, err := a.ApplyGroup(as(t.Context(), operatorToken), &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: specJSON(t)}); err != nil {
		t.Fatal(err)
	}
	calls := a.every(t)
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			if name == "DeleteGroup" { // the other calls need a group that stays
				defer func() { _ = calls["DeleteGroup, taken back"](as(t.Context(), operatorToken)) }()
			}
			for _, c := range []struct {
				who, token string
				want       codes.Code
			}{
				{"an operator", operatorToken, codes.OK},
				{"nobody", "", codes.Unauthenticated},
				{"a stranger", "11111111-2222-3333-4444-555555555555", codes.PermissionDenied},
				{"a workload", a.workload, codes.PermissionDenied},
				{"an endless token", strings.Repeat("x", 129), codes.Unauthenticated},
			} {
				if got := status.Code(call(as(t.Context(), c.token))); got != c.want {
					t.Errorf("%s: %v, want %v", c.who, got, c.want)
				}
			}
		})
	}
}

func TestWatchEndsWhenTheTokenIsRevoked(t *testing.T) {
	a := newAPI(t)
	if _, err := a.ApplyGroup(as(t.Context(), operatorToken), &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: specJSON(t)}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	w := &watch{ctx: as(ctx, operatorToken), sent: make(chan *apiv1.WatchGroupResponse, 1)}
	ended := make(chan error, 1)
	go func() { ended <- a.WatchGroup(&apiv1.WatchGroupRequest{Group: "pg"}, w) }()
	<-w.sent
	acl := a.consul.ACL()
	token, _, err := acl.TokenReadSelf(&consul.QueryOptions{Token: operatorToken})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := acl.TokenDelete(token.AccessorID, nil); err != nil {
		t.Fatal(err)
	}
	a.mu.Lock()
	a.offset = recheckEvery
	a.mu.Unlock()
	if err := <-ended; status.Code(err) != codes.PermissionDenied {
		t.Errorf("the watch ended with %v", err)
	}
}

// TestGarbageIsReplacedThroughTheAPI: after any plain KV edit an operator can list the instances
// and apply a valid spec.
func TestGarbageIsReplacedThroughTheAPI(t *testing.T) {
	a := newAPI(t)
	ctx := as(t.Context(), operatorToken)
	for name, garbage := range map[string]string{"no JSON": "oops", "too large": strings.Repeat(" ", group.MaxSpecBytes+1)} {
		if _, err := a.ApplyGroup(ctx, &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: specJSON(t)}); err != nil {
			t.Fatalf("before %s: %v", name, err)
		}
		status := `{"group":"pg","observed_index":1,"generation":1,"replicas":1,"available":1,"updated":1,"unavailable":0,"transfers":0,"term":1,
			"at":"2026-01-01T00:00:00Z","instances":[{"group":"pg","slot":"pg-0","ordinal":0,"state":"Available","health":"healthy"}]}`
		for key, value := range map[string]string{store.GroupSpecKey("pg"): garbage, store.GroupStatusKey("pg"): status} {
			if err := a.cfg.Store.Commit(t.Context(), store.Op{Kind: store.OpPut, Key: key, Value: []byte(value)}); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := a.ListInstances(ctx, &apiv1.ListInstancesRequest{Group: "pg"}); err != nil || len(got.GetInstancesJson()) != 1 {
			t.Errorf("%s: instances %v, %v", name, got, err)
		}
	}
	if out, err := a.ApplyGroup(ctx, &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: specJSON(t)}); err != nil || !out.GetChanged() {
		t.Errorf("the valid spec: %v, %v", out, err)
	}
}
