package dashboard

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cadre.dev/cli/internal/overview"
	"cadre.dev/client"
	"cadre.dev/client/clienttest"
	"cadre.dev/core/audit"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
	"cadre.dev/core/rollout"
	"cadre.dev/platform"
	overlayv1 "cadre.dev/proto/cadre/overlay/v1"
)

func TestMain(m *testing.M) {
	time.Local = time.UTC
	os.Exit(m.Run())
}

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) *time.Time { at := noon.Add(-d); return &at }

const (
	older  = "a1b2c3d4e5f60718293a4b5c6d7e8f90"
	newer  = "ffeeddccbbaa99887766554433221100"
	vmUUID = "5f0c3a1e-0000-4000-8000-00000000000"
)

// bench is a dashboard with a coordinator behind it, and a browser's jar of cookies.
type bench struct {
	*clienttest.Server
	t      *testing.T
	server *Server
	http   *http.Client
	// enter is the printed address, base the address of the overview.
	enter, base string
	// end ends Serve; ended receives its error.
	end   context.CancelFunc
	ended chan error
}

func newBench(t *testing.T, s *clienttest.Server) *bench {
	t.Helper()
	cl, err := client.Dial(s.Start(t), client.Options{CallTimeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cl.Close() })
	l, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	b := &bench{Server: s, t: t, end: cancel, ended: make(chan error, 1)}
	b.server = &Server{Client: cl, Simulated: true, Assess: func(ctx context.Context) overview.Report { return judged(ctx, cl) }, patience: time.Minute, Now: func() time.Time { return noon }, List: func(_ context.Context, app string) ([]platform.Instance, error) {
		if app == clienttest.AppID {
			return []platform.Instance{{Name: "demo-coordinator-0", Status: "running", Node: "prod5", OSImage: "dstack-0.5.9"}, {Name: "demo-coordinator-1", Status: "running", Node: "prod7", OSImage: "dstack-0.5.9"},
				{Name: "demo-coordinator-2", Status: "running", Node: "prod9", OSImage: "dstack-0.5.9"}}, nil
		}
		return nil, nil
	}}
	urls := make(chan string, 1)
	go func() { b.ended <- b.server.Serve(ctx, l, func(u string) { urls <- u }) }()
	t.Cleanup(func() { cancel(); <-b.ended })
	b.enter = <-urls
	b.base = b.enter[:strings.Index(b.enter, "enter?")]
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	b.http = &http.Client{Jar: jar}
	return b
}

// judged reads the records that the judgement of these tests needs.
func judged(ctx context.Context, cl *client.Client) overview.Report {
	f := overview.Facts{Now: noon, Cluster: "demo"}
	note := func(err error) {
		if err != nil {
			f.Unread = append(f.Unread, err.Error())
		}
	}
	cluster, err := cl.Cluster(ctx)
	note(err)
	f.Coordinators = []overview.Coordinator{{Name: cluster.GetSelf(), Answered: true, Leader: cluster.GetLeader(), Term: cluster.GetTerm()}}
	list, err := cl.Groups(ctx)
	note(err)
	for _, g := range list {
		f.Groups = append(f.Groups, overview.Group{Name: g.GetGroup(), Replicas: int(g.GetReplicas()), Available: int(g.GetAvailable()), RolloutState: g.GetRolloutState(), Message: g.GetMessage()})
	}
	f.Slots, err = cl.Instances(ctx, "")
	note(err)
	f.Operations, err = cl.Operations(ctx, "", false)
	note(err)
	return overview.Assess(f)
}

// entered is newBench with the cookie.
func entered(t *testing.T, s *clienttest.Server) *bench {
	t.Helper()
	b := newBench(t, s)
	if code, body := b.read(b.enter); code != http.StatusOK {
		t.Fatalf("enter: %d %s", code, body)
	}
	return b
}

// read reads an absolute address.
func (b *bench) read(address string) (int, string) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, address, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.do(req)
}

// get reads a page below the mount.
func (b *bench) get(path string) (int, string) {
	b.t.Helper()
	return b.read(b.base + path)
}

func (b *bench) do(req *http.Request) (int, string) {
	b.t.Helper()
	resp, err := b.http.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

var hidden = regexp.MustCompile(`<input type="hidden" name="([a-z_]+)" value="([^"]*)"`)

// act opens the form of an action and sends it with the given pairs of names and values.
func (b *bench) act(path string, pairs ...string) (int, string) {
	b.t.Helper()
	_, page := b.get(path)
	in := url.Values{}
	at := strings.Index(page, `<form method="post"`)
	if at < 0 {
		b.t.Fatalf("%s has no form: %s", path, page)
	}
	for _, m := range hidden.FindAllStringSubmatch(page[at:], -1) {
		in.Set(m[1], m[2])
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		in.Set(pairs[i], pairs[i+1])
	}
	return b.post(path, in)
}

func (b *bench) post(path string, in url.Values) (int, string) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, b.base+path, strings.NewReader(in.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Origin", "http://"+req.URL.Host)
	return b.do(req)
}

// world is a cluster in the middle of things.
func world(t *testing.T) *clienttest.Server {
	t.Helper()
	s := clienttest.New(t)
	s.Set("postgres", midRollout)
	s.Set("web", func(g *clienttest.Group) { quietGroup(g, "web", 3, newer) })
	s.Set("kafka", func(g *clienttest.Group) {
		quietGroup(g, "kafka", 5, older)
		g.Status.RolloutState, g.Status.Message = "FAILED", "kafka-4 was not available within 10m"
		g.Status.Target, g.Status.Updated, g.Status.Available, g.Status.Unavailable = newer, 0, 4, 1
		g.Status.Instances[4].State, g.Status.Instances[4].Health, g.Status.Instances[4].Reason = group.SlotFailed, "unhealthy", "healthy_deadline: its check broker refuses connections"
		g.Plan.Actions = []rollout.Action{{Slot: "kafka-3", Ordinal: 3, Kind: operation.Update, From: older, To: newer, Class: rollout.ClassFollower,
			Holds: []rollout.Hold{{Predicate: rollout.HoldRolloutFailed, Message: "the rollout failed: kafka-4 was not available within 10m"}}}}
	})
	s.SetAdmission(clienttest.Admission{Statuses: []policy.AdmissionStatus{
		{Group: "postgres", Slot: "postgres-0", State: policy.StateAdmitted, BootID: "be00f00d11223344", Revision: older, Number: 6, AttestedAt: *ago(9 * time.Minute), ReattestBy: noon.Add(50 * time.Minute), TCBStatus: "UpToDate", Simulated: true},
		{Group: "postgres", Slot: "postgres-1", State: policy.StateDenied, Code: "REVISION_NOT_ALLOWED", Why: "compose hash 00ab is not allowed", BootID: "beef001122334455", Revision: newer, Number: 7, AttestedAt: *ago(time.Minute), TCBStatus: "OutOfDate", TCBEnds: noon.Add(240 * time.Hour), Simulated: true},
		{Group: "postgres", Slot: "postgres-2", State: policy.StateAdmitted, BootID: "ca11ab1e11223344", Revision: newer, Number: 7, AttestedAt: *ago(4 * time.Minute), ReattestBy: noon.Add(55 * time.Minute), TCBStatus: "UpToDate", Simulated: true},
	}, Explanations: map[string]policy.Explanation{"postgres-1": {AdmissionStatus: policy.AdmissionStatus{Slot: "postgres-1", State: policy.StateDenied, Code: "REVISION_NOT_ALLOWED", Why: "compose hash 00ab is not allowed"},
		Next: []string{"approve the revision: `cadre admission approve ffeeddcc`"}}}})
	s.SetWayOut(clienttest.WayOut{Waiting: []client.Asked{{ID: "restart-0f3a5c1b8d2e4f60718293a4b5c6d7e8", Kind: "restart", Group: "web", Slot: "web-1", By: "ann", Reason: "it leaks", At: *ago(3 * time.Minute)}}})
	s.SetOverlay(clienttest.Overlay{Links: map[string][]*overlayv1.Link{"coordinator-0": links()}})
	setAudit(s,
		audit.Entry{Who: audit.Operator, By: "ann (0a1b2c3d-4e5f-4061-8728-394a5b6c7d8e)", Request: "ticket-7", Verb: "apply", Object: "groups/postgres/spec", Reason: "release 7"},
		audit.Entry{Who: audit.Leader, By: "coordinator-1", Request: "ticket-7", Verb: "start-rollout", Object: "rollouts/postgres-4", Reason: "group postgres, revision ffeeddcc"},
		audit.Entry{Who: audit.KV, By: "unknown (written to Consul KV)", Verb: "edit", Object: "control/freeze/_all"})
	return s
}

// setAudit makes a chain of the entries, of which the last one is a minute old.
func setAudit(s *clienttest.Server, entries ...audit.Entry) {
	var head audit.Head
	for n := range entries {
		entries[n].At = noon.Add(time.Duration(n-len(entries)) * time.Minute)
		head, entries[n] = head.Append(entries[n])
	}
	s.SetAudit(head, entries, noon)
}

func links() []*overlayv1.Link {
	rtt := func(micros int64) *durationpb.Duration {
		return durationpb.New(time.Duration(micros) * time.Microsecond)
	}
	since := timestamppb.New(noon.Add(-26 * time.Hour))
	return []*overlayv1.Link{
		{Peer: "coordinator-1", Coordinator: true, State: "up", Path: "direct-tcp", Carrier: "tcp", PathReason: "the fastest of 2 paths", Rtt: rtt(310), BytesIn: 731 << 20, BytesOut: 610 << 20, PathSince: since},
		{Peer: "postgres-0", Group: "postgres", State: "up", Path: "direct-udp", Carrier: "quic", PathReason: "the fastest of 3 paths", Rtt: rtt(4200), BytesIn: 12 << 20, BytesOut: 9 << 20, PathSince: since, PacketsSent: 1000, PacketsLost: 2},
		{Peer: "postgres-1", Group: "postgres", State: "awaited", Since: timestamppb.New(noon.Add(-38 * time.Second)), LastError: "connection refused"},
		{Peer: "postgres-2", Group: "postgres", State: "up", Path: "relay-udp", Carrier: "quic", PathReason: "no direct path was found", Rtt: rtt(41000), BytesIn: 2 << 20, BytesOut: 3 << 20, PathSince: since, PacketsSent: 100, PacketsLost: 1},
		{Peer: "web-0", Group: "web", State: "idle", Since: since},
	}
}

func quietGroup(g *clienttest.Group, name string, size int, revision string) {
	g.Spec = group.Spec{Name: name, Replicas: size, AppID: "app-" + name, Workload: group.Workload{Kind: "none"}}
	g.Status = group.Status{Group: name, ObservedIndex: g.Index, Target: revision, Stable: revision, Rollout: name + "-1", RolloutState: "COMPLETE", Replicas: size, Available: size, Updated: size}
	g.Plan = rollout.Plan{Group: name, Target: revision, Stable: revision}
	for n := range size {
		g.Status.Instances = append(g.Status.Instances, group.InstanceStatus{Group: name, Slot: fmt.Sprintf("%s-%d", name, n), Ordinal: n, State: group.SlotAvailable, Health: "healthy",
			Assigned: revision, Observed: revision, Since: ago(26 * time.Hour), PlatformStatus: "running"})
	}
}

// midRollout is a PostgreSQL cluster while its second member boots.
func midRollout(g *clienttest.Group) {
	one, lag := 1, int64(3<<20)
	g.Spec = group.Spec{Name: "postgres", Replicas: 3, AppID: "app-postgres", Workload: group.Workload{Kind: "patroni"}, UpdatePolicy: group.UpdatePolicy{MaxUnavailableFixed: &one}}
	g.Index = 41
	g.Status = group.Status{
		Group: "postgres", ObservedIndex: 41, Generation: 4, Target: newer, TargetNumber: 7, Stable: older, Rollout: "postgres-4", RolloutState: "RUNNING",
		Message: "waits for postgres-1: booting, 38s", Replicas: 3, Available: 2, Updated: 1, Unavailable: 1,
		Conditions: []group.Condition{
			{Type: "Progressing", Status: true, Reason: "OperationOpen", Message: "postgres-1 is BOOTING", Since: *ago(38 * time.Second)},
			{Type: "Quorum", Status: true, Reason: "Known", Message: "3 voters, quorum 2, 2 healthy", Since: *ago(time.Hour)},
			{Type: "Simulated", Status: true, Reason: "AnotherRoot", Message: "admissions rest on another root of trust than Intel's", Since: *ago(26 * time.Hour)},
		},
		Instances: []group.InstanceStatus{
			{Group: "postgres", Slot: "postgres-0", State: group.SlotAvailable, Health: "healthy", Role: "leader", Assigned: older, Observed: older, VMUUID: vmUUID + "0", NodeName: "prod5", Since: ago(26 * time.Hour), PlatformStatus: "running"},
			{Group: "postgres", Slot: "postgres-1", Ordinal: 1, State: group.SlotBooting, Health: "unknown", Role: "unknown", Assigned: newer, Observed: older, Phase: "BOOTING", VMUUID: vmUUID + "1", NodeName: "prod7",
				Since: ago(38 * time.Second), Reason: "the platform accepted the update", PlatformStatus: "updating", Operation: "postgres-4-1a2b3c4d.2.postgres-1",
				AppID: "app-postgres", InstanceID: "cafe00112233445566778899aabbccddeeff0011", VIP: "127.32.0.11"},
			{Group: "postgres", Slot: "postgres-2", Ordinal: 2, State: group.SlotAvailable, Health: "healthy", Role: "follower", LagBytes: &lag, Assigned: newer, Observed: newer, VMUUID: vmUUID + "2", NodeName: "prod9", Since: ago(3*time.Minute + 4*time.Second), PlatformStatus: "running"},
		},
	}
	g.Plan = rollout.Plan{
		Group: "postgres", Target: newer, Stable: older, Generation: 4, Message: g.Status.Message, Warnings: []string{"voter_cap: voters are updated 1 at a time (R17)"},
		Rollout: &operation.Rollout{ID: "postgres-4", State: operation.Running, StartedAt: noon.Add(-4 * time.Minute), Steps: 2, By: clienttest.AppliedBy},
		Actions: []rollout.Action{
			{Slot: "postgres-1", Ordinal: 1, Kind: operation.Update, From: older, To: newer, Class: rollout.ClassFollower, Operation: "postgres-4-1a2b3c4d.2.postgres-1", Phase: operation.Booting},
			{Slot: "postgres-0", Kind: operation.Update, From: older, To: newer, Class: rollout.ClassLeader, Transfer: &operation.Transfer{ExpectedLeader: "postgres-0", Candidates: []string{"postgres-2"}},
				Before: operation.Before{Quorum: "3 voters, quorum 2, 2 healthy"}, Holds: []rollout.Hold{
					{Predicate: rollout.HoldMaxUnavailable, Message: "1 of 1 in use by postgres-1"},
					{Predicate: rollout.HoldLeaderLast, Message: "postgres-1 is not proven updated yet"},
				}},
		},
	}
	g.AppliedBy, g.AppliedRequest = clienttest.AppliedBy, "apply-77aa5c1b8d2e4f60718293a4b5c6d7e8"
	g.Rollouts = []operation.Rollout{
		{ID: "postgres-4", Group: "postgres", From: older, To: newer, State: operation.Running, Steps: 2, StartedAt: noon.Add(-4 * time.Minute), By: clienttest.AppliedBy},
		{ID: "postgres-3", Group: "postgres", To: older, State: operation.FailedState, Reason: "postgres-0 was not available within 10m", Steps: 3, StartedAt: noon.Add(-26 * time.Hour), EndedAt: noon.Add(-25 * time.Hour), By: "bob"},
	}
	g.Operations = []operation.Operation{
		{ID: "postgres-4-1a2b3c4d.2.postgres-1", Group: "postgres", Slot: "postgres-1", Kind: operation.Update, Actor: operation.ActorRollout, Phase: operation.Booting, From: older, To: newer,
			Call: operation.Call{Number: 1, Outcome: operation.OutcomeDone}, Times: operation.Times{Created: noon.Add(-50 * time.Second), HealthyBy: noon.Add(9 * time.Minute)}, Reason: "the platform accepted the update"},
	}
	g.Admissions = [][]byte{
		[]byte(`{"slot":"postgres-1","boot_id":"beef00112233","instance_id":"cafe00112233","code":"REVISION_NOT_ALLOWED","message":"compose hash 00ab is not allowed","at":"2026-05-04T11:59:30Z","by":"coordinator-1"}`),
		[]byte(`{"slot":"postgres-1","boot_id":"feed00112233","instance_id":"cafe00112233","revision":"a1b2c3d4e5f60718293a4b5c6d7e8f90","admitted_at":"2026-05-03T10:00:00Z","by":"coordinator-0"}`),
	}
}
