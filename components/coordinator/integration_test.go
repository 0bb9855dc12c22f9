package coordinator_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	consul "github.com/hashicorp/consul/api"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"cadre.dev/attest"
	"cadre.dev/attest/statement"
	"cadre.dev/coordinator/internal/testnet"
	"cadre.dev/coordinator/wholetest"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// TestOneCoordinator runs a whole coordinator: real Consul, real overlay, real
// API, simulated hardware, a platform of one test. An operator applies a group,
// its CVM is created, its agent is admitted, and the rollout completes.
func TestOneCoordinator(t *testing.T) {
	if !testnet.Isolated(t) {
		return
	}
	h := newHarness(t)
	traces := h.collector()
	h.Config.TracesEndpoint = traces.URL + "/v1/traces"
	h.Start()
	api := h.dial(h.OperatorToken)

	h.Eventually("the first answer", func() error {
		_, err := api.GetCluster(api.ctx, &apiv1.GetClusterRequest{})
		return err
	})
	h.attestation(api)

	stranger := h.dial("9f3c2c86-58a5-4c4f-8e0e-1b7ab7a7aaaa")
	if _, err := stranger.ApplyGroup(stranger.ctx, &apiv1.ApplyGroupRequest{Group: "web", SpecJson: specJSON(t, "one")}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a token that Consul does not know applied a group: %v", err)
	}
	if _, err := h.dial("").ListGroups(t.Context(), &apiv1.ListGroupsRequest{}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("a call without a token: %v", err)
	}
	if _, err := api.ApplyGroup(api.ctx, &apiv1.ApplyGroupRequest{Group: "web", SpecJson: []byte(`{"name":"web","replicas":0}`)}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("an invalid spec: %v", err)
	}
	applied, err := api.ApplyGroup(api.ctx, &apiv1.ApplyGroupRequest{Group: "web", SpecJson: specJSON(t, "one")})
	if err != nil || !applied.GetChanged() {
		t.Fatalf("apply: %v %v", applied, err)
	}
	again, err := api.ApplyGroup(api.ctx, &apiv1.ApplyGroupRequest{Group: "web", SpecJson: specJSON(t, "one")})
	if err != nil || again.GetChanged() || again.GetIndex() != applied.GetIndex() {
		t.Errorf("apply again: %v %v", again, err)
	}
	h.complete(api, applied.GetRevision())
	applied, err = api.ApplyGroup(api.ctx, &apiv1.ApplyGroupRequest{Group: "web", SpecJson: specJSON(t, "two"), ExpectedIndex: applied.GetIndex()})
	if err != nil {
		t.Fatal(err)
	}
	h.complete(api, applied.GetRevision())
	if _, err := api.ApplyGroup(api.ctx, &apiv1.ApplyGroupRequest{Group: "web", SpecJson: specJSON(t, "one"), ExpectedIndex: 1}); status.Code(err) != codes.Aborted {
		t.Errorf("a stale index: %v", err)
	}
	instances, err := api.ListInstances(api.ctx, &apiv1.ListInstancesRequest{Group: "web"})
	if err != nil || len(instances.GetInstancesJson()) != 1 {
		t.Fatalf("instances: %v %v", instances, err)
	}
	var one group.InstanceStatus
	if err := json.Unmarshal(instances.GetInstancesJson()[0], &one); err != nil || one.Slot != "web-0" || one.Observed != applied.GetRevision() {
		t.Errorf("instance: %+v %v", one, err)
	}
	if _, err := api.SetOverride(api.ctx, &apiv1.SetOverrideRequest{Kind: apiv1.OverrideKind_OVERRIDE_KIND_PAUSE, Name: "web", Reason: "look"}); err != nil {
		t.Errorf("pause: %v", err)
	}
	if _, err := api.ClearOverride(api.ctx, &apiv1.ClearOverrideRequest{Kind: apiv1.OverrideKind_OVERRIDE_KIND_PAUSE, Name: "web"}); err != nil {
		t.Errorf("resume: %v", err)
	}
	described, err := api.DescribeInstance(api.ctx, &apiv1.DescribeInstanceRequest{Slot: "web-0"})
	if err != nil || len(described.GetOperationsJson()) != 2 {
		t.Errorf("describe: %d operations, %v", len(described.GetOperationsJson()), err)
	}
	traces.rollout(h)
	h.mesh(api)
	h.route(api, applied)
	h.Eventually("a renewal over the control session", func() error {
		if outcome, _ := h.Renewals.Load().(string); h.Renewals.Load() == nil || outcome != "" {
			return fmt.Errorf("renewal: %v", h.Renewals.Load())
		}
		return nil
	})
	h.Eventually("an answer to the stream of a proxy", func() error {
		// No route makes the group's members proxies.
		if ended, _ := h.Proxy.Load().(string); !strings.Contains(ended, "PermissionDenied") || !strings.Contains(ended, "group web has no proxies") {
			return fmt.Errorf("it ended with %q", ended)
		}
		return nil
	})
	if err := h.Stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
}

// complete waits on the watch until the group is at a Revision.
func (h *harness) complete(api *operator, revision string) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(api.ctx, time.Minute)
	defer cancel()
	stream, err := api.WatchGroup(ctx, &apiv1.WatchGroupRequest{Group: "web"})
	if err != nil {
		h.t.Fatal(err)
	}
	last := ""
	for {
		seen, err := stream.Recv()
		if err != nil {
			h.t.Fatalf("watch: %v; last status %s", err, last)
		}
		var st group.Status
		if err := json.Unmarshal(seen.GetStatusJson(), &st); err != nil {
			h.t.Fatal(err)
		}
		last = string(seen.GetStatusJson())
		if st.Stable == revision && st.RolloutState == string(operation.Complete) && st.Available == 1 {
			return
		}
	}
}

// route gives the group a route, which causes no rollout and leads to the member's proxy.
func (h *harness) route(api *operator, applied *apiv1.ApplyGroupResponse) {
	h.t.Helper()
	var spec group.Spec
	if err := json.Unmarshal(specJSON(h.t, "two"), &spec); err != nil {
		h.t.Fatal(err)
	}
	spec.Backends = []group.Backend{{Name: "api", Port: 8080, Allow: []string{"web"}}}
	spec.Routes = []group.Route{{Name: "front", Backend: "api"}}
	raw, err := json.Marshal(spec)
	if err != nil {
		h.t.Fatal(err)
	}
	routed, err := api.ApplyGroup(api.ctx, &apiv1.ApplyGroupRequest{Group: "web", SpecJson: raw, ExpectedIndex: applied.GetIndex()})
	if err != nil || routed.GetRevision() != applied.GetRevision() {
		h.t.Fatalf("a route makes the revision %s another one: %s, %v", applied.GetRevision(), routed.GetRevision(), err)
	}
	reader, err := consul.NewClient(&consul.Config{Address: "127.0.0.1:8500", Token: h.OperatorToken})
	if err != nil {
		h.t.Fatal(err)
	}
	h.Eventually("the route leads to the member", func() error {
		list, _, err := reader.Health().Connect("web-api", "", true, nil)
		if err != nil || len(list) != 1 || list[0].Node.Node != "web-0" || list[0].Service.Port != group.FirstProxyPort {
			return fmt.Errorf("proxies %+v, %w", list, err)
		}
		callers, _, err := reader.Catalog().Service("web-sidecar-proxy", "", nil)
		if err != nil || len(callers) != 1 || len(callers[0].ServiceProxy.Upstreams) != 1 || callers[0].ServiceProxy.Upstreams[0].DestinationName != "front" {
			return fmt.Errorf("callers %+v, %w", callers, err)
		}
		chain, _, err := reader.DiscoveryChain().Get("front", nil, nil)
		if err != nil || chain.Chain.StartNode != "resolver:any.web-api.default.default.dc1" {
			return fmt.Errorf("chain %+v, %w", chain, err)
		}
		return nil
	})
	operations, err := api.DescribeInstance(api.ctx, &apiv1.DescribeInstanceRequest{Slot: "web-0"})
	if err != nil || len(operations.GetOperationsJson()) != 2 {
		h.t.Errorf("a route moved the slot: %d operations, %v", len(operations.GetOperationsJson()), err)
	}
}

// attestation makes the checks of a client before it sends its token.
func (h *harness) attestation(api *operator) {
	h.t.Helper()
	nonce := bytes.Repeat([]byte{5}, 32)
	proof, err := api.AttestCoordinator(h.t.Context(), &apiv1.AttestCoordinatorRequest{Nonce: nonce})
	if err != nil {
		h.t.Fatal(err)
	}
	said, err := statement.DecodeCoordinator(proof.GetStatement())
	if err != nil {
		h.t.Fatal(err)
	}
	claims, err := h.Verifier.Verify(h.t.Context(), attest.Evidence{Quote: proof.GetQuote(), EventLog: proof.GetEventLog(), AppCompose: proof.GetAppCompose()}, said.ReportData())
	if err != nil || claims.AppID != wholetest.CoordinatorApp || !bytes.Equal(said.PeerNonce, nonce) {
		h.t.Errorf("attestation: %v, app %s", err, claims.AppID)
	}
}

func specJSON(t *testing.T, release string) []byte {
	t.Helper()
	ready := 0
	raw, err := json.Marshal(group.Spec{
		Name: "web", Platform: "phala", Replicas: 1,
		Template: group.Template{
			Compose:      "services:\n  web:\n    image: example.org/web@sha256:" + strings.Repeat("a", 64) + "\n    environment:\n      RELEASE: " + release + "\n",
			InstanceType: "tdx.small", OSImage: wholetest.OSImage,
		},
		UpdatePolicy: group.UpdatePolicy{MinReadySeconds: &ready},
	})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

type harness struct {
	*wholetest.Whole
	t *testing.T
}

func newHarness(t *testing.T) *harness { return &harness{Whole: wholetest.New(t), t: t} }

// operator is an API client with a token.
type operator struct {
	apiv1.ClusterServiceClient
	apiv1.ControlServiceClient
	policy    apiv1.PolicyServiceClient
	operators apiv1.OperatorServiceClient
	conn      *grpc.ClientConn
	ctx       context.Context //nolint:containedctx // it carries the token and ends with the test
}

func (h *harness) dial(token string) *operator {
	h.t.Helper()
	conn, err := grpc.NewClient("passthrough:///127.0.0.1:7444", grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})))
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = conn.Close() })
	return &operator{ClusterServiceClient: apiv1.NewClusterServiceClient(conn), ControlServiceClient: apiv1.NewControlServiceClient(conn), policy: apiv1.NewPolicyServiceClient(conn), operators: apiv1.NewOperatorServiceClient(conn), conn: conn, ctx: metadata.AppendToOutgoingContext(h.t.Context(), "x-consul-token", token)}
}
