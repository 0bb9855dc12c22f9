package genesis

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cadre.dev/cli/kmsauth"
	"cadre.dev/client"
	"cadre.dev/client/groupfile"
	"cadre.dev/core/appcompose"
	"cadre.dev/platform"
)

// hosts are a platform that changes a stopped CVM only, over the fake cloud.
type hosts struct {
	Cloud

	mu    sync.Mutex // guards all below
	down  map[string]string
	given map[string]platform.UpdateRequest
	nodes map[string]string
	calls []string
	// hangs: no guest shuts down.
	hangs bool
	// inner and outer translate compose hashes.
	inner, outer map[string]string
}

// Provision measures the sent bytes, as a host does. The fake cloud adds a script to a document without
// one, so it gets another document.
func (h *hosts) Provision(ctx context.Context, vm string, t platform.Template) (platform.Provisioned, error) {
	hash := appcompose.Hash(t.AppCompose)
	t.AppCompose = withScript(t.AppCompose)
	p, err := h.Cloud.Provision(ctx, vm, t)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.inner[hash], h.outer[p.ComposeHash] = p.ComposeHash, hash
	p.ComposeHash, p.AppCompose = hash, nil
	return p, err
}

func (h *hosts) Habits() platform.Habits { return platform.Habits{StopFirst: true} }

func (h *hosts) called(what, vm string) {
	h.calls = append(h.calls, what+" "+vm)
}

func withScript(text []byte) []byte {
	return []byte(strings.Replace(string(text), `"public_logs"`, `"pre_launch_script":"true\n","public_logs"`, 1))
}

func (h *hosts) Create(ctx context.Context, req platform.CreateRequest) (platform.Instance, error) {
	h.mu.Lock()
	h.nodes[req.Name] = req.Node
	req.Provisioned.ComposeHash = h.inner[req.Provisioned.ComposeHash]
	h.mu.Unlock()
	req.Node, req.Template.AppCompose = "", withScript(req.Template.AppCompose)
	return h.Cloud.Create(ctx, req)
}

func (h *hosts) List(ctx context.Context, appID string) ([]platform.Instance, error) {
	list, err := h.Cloud.List(ctx, appID)
	h.mu.Lock()
	defer h.mu.Unlock()
	for n := range list {
		i := &list[n]
		i.Node, i.ComposeHash = h.nodes[i.Name], h.outer[i.ComposeHash]
		if status := h.down[i.VMUUID]; status != "" {
			i.Status, i.InProgress = status, false
		}
		if req, ok := h.given[i.VMUUID]; ok {
			i.ComposeHash = req.ComposeHash
			if req.Shape.DiskGB > 0 {
				i.DiskGB = req.Shape.DiskGB
			}
		}
	}
	return list, err
}

// Stop makes the CVM exit without a word the first time, as a guest does that crashes on its way down.
func (h *hosts) Stop(_ context.Context, vm string) (platform.Accepted, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.called("stop", vm)
	switch {
	case h.hangs:
	case h.down[vm] == "":
		h.down[vm] = "exited"
	default:
		h.down[vm] = "stopped"
	}
	return platform.Accepted{}, nil
}

func (h *hosts) ForceStop(_ context.Context, vm string) (platform.Accepted, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.called("force", vm)
	h.down[vm] = "stopped"
	return platform.Accepted{}, nil
}

func (h *hosts) Update(_ context.Context, req platform.UpdateRequest) (platform.Accepted, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.down[req.VMUUID] != "stopped" {
		return platform.Accepted{}, fmt.Errorf("%w: %w", platform.ErrBusy, platform.ErrRefused)
	}
	h.called("update", req.VMUUID)
	h.given[req.VMUUID] = req
	return platform.Accepted{}, nil
}

func (h *hosts) Start(ctx context.Context, vm string) (platform.Accepted, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.called("start", vm)
	delete(h.down, vm)
	req := h.given[vm]
	req.Shape, req.ComposeHash = platform.Shape{}, h.inner[req.ComposeHash]
	return h.Cloud.Update(ctx, req)
}

// of counts the calls of one kind.
func (h *hosts) of(what string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.calls {
		if strings.HasPrefix(c, what+" ") {
			n++
		}
	}
	return n
}

// onHosts is a cluster file whose platform are two hosts, with its static file for the key service.
func onHosts(t *testing.T, b *bench) (*hosts, groupfile.Cluster, string) {
	t.Helper()
	static := filepath.Join(t.TempDir(), "kms-auth.json")
	if _, err := kmsauth.Init(static, "", nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	h := &hosts{Cloud: b.opts.Cloud, down: map[string]string{}, given: map[string]platform.UpdateRequest{}, nodes: map[string]string{}, inner: map[string]string{}, outer: map[string]string{}}
	b.opts.Cloud = h
	one := b.opts.Cluster
	one.Platform = groupfile.ClusterPlatform{Driver: "vmm", APIURL: "vmm:a=http://h:1,b=http://h:2", InCVM: "vmm:a=http://10.0.2.2:1,b=http://h:2", Nodes: []string{"a", "b"}, KMSAuthFile: static}
	b.opts.Cluster = one
	return h, one, static
}

// TestCoordinatorsOnHostsThatChangeAStoppedCVM: they are spread over the nodes, the key service allows
// them before they boot, and one stop and one start change the document and the disk.
func TestCoordinatorsOnHostsThatChangeAStoppedCVM(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	f := &fakeCoordinators{t: t, bench: b, leader: "coordinator-0", raft: "coordinator-0", broken: map[string]bool{}, silent: map[string]bool{}, lost: map[string]bool{}}
	h, one, static := onHosts(t, b)
	if _, err := b.create(t); err == nil || !strings.Contains(err.Error(), "last answer") {
		t.Fatalf("Create on hosts whose CVMs run nothing: %v", err)
	}
	if got := []string{h.nodes[three[0]], h.nodes[three[1]], h.nodes[three[2]]}; !slices.Equal(got, []string{"a", "b", "a"}) {
		t.Errorf("nodes %q", got)
	}
	known, err := client.LoadContext(b.opts.ContextPath)
	if err != nil || known.Platform.Driver != "vmm" || known.Platform.APIURL != one.Platform.APIURL {
		t.Fatalf("context: %+v, %v", known.Platform, err)
	}
	hashes := func() []string {
		t.Helper()
		read, err := kmsauth.Read(static)
		if err != nil {
			t.Fatal(err)
		}
		return read.Apps["0x"+known.CoordinatorAppID].ComposeHashes
	}
	old := b.hashes(t)[0]
	if got := hashes(); !slices.Equal(got, []string{"0x" + old}) {
		t.Errorf("the key service allows %q, the coordinators run %s", got, old)
	}
	next := b.file(t, anImage+`sha256:${sha256("c")}\n# ${cadre.coordinator_app_id} ${cadre.trust_json}"`, `image: d@sha256:${sha256("c")}\n# ${cadre.coordinator_app_id} ${cadre.trust_json}"
    disk_gb       = 40`)
	next.Platform = one.Platform
	b.opts.Reach, b.opts.Step = f, 20*time.Second
	if err := b.upgrade(t.Context(), t, next); err != nil {
		t.Fatalf("%v\n%s", err, strings.Join(b.said, "\n"))
	}
	if h.of("update") != 3 || h.of("start") != 3 || h.of("force") != 0 {
		t.Errorf("calls %q", h.calls)
	}
	now := b.hashes(t)
	if now[0] == old || now[0] != now[1] || now[1] != now[2] {
		t.Errorf("hashes %q, before %s", now, old)
	}
	if got := hashes(); !slices.Equal(got, []string{"0x" + now[0]}) {
		t.Errorf("after the upgrade the key service allows %q", got)
	}
	for vm, req := range h.given {
		if req.Shape.DiskGB != 40 || req.Env["CADRE_SLOT"] == "" {
			t.Errorf("%s: %+v", vm, req)
		}
	}
	// Guests that do not shut down are stopped as by a power cut.
	h.mu.Lock()
	h.hangs, h.calls = true, nil
	h.mu.Unlock()
	b.opts.Step = 4 * time.Second
	if err := b.upgrade(t.Context(), t, b.with(t, one, "image: e@")); err != nil {
		t.Fatalf("%v\n%s", err, strings.Join(b.said, "\n"))
	}
	if h.of("force") != 3 || h.of("update") != 3 {
		t.Errorf("calls %q", h.calls)
	}
	// The coordinators get another list of hosts, with the same content.
	h.mu.Lock()
	h.hangs, h.calls = false, nil
	h.mu.Unlock()
	b.opts.Step = 20 * time.Second
	fewer := b.with(t, one, "image: e@")
	fewer.Platform.APIURL, fewer.Platform.InCVM, fewer.Platform.Nodes = "vmm:a=http://h:1", "vmm:a=http://10.0.2.2:1", []string{"a"}
	if err := b.upgrade(t.Context(), t, fewer); err != nil || len(h.calls) > 0 {
		t.Errorf("without Env: %v, calls %q", err, h.calls)
	}
	digest := func(one groupfile.Cluster) string {
		t.Helper()
		out, err := Rendering(one, known)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if same := b.with(t, one, "image: e@"); digest(same) == digest(fewer) || digest(same) != digest(b.with(t, one, "image: e@")) {
		t.Error("the digest for Terraform does not follow the list of hosts")
	}
	b.opts.Env = true
	if err := b.upgrade(t.Context(), t, fewer); err != nil || h.of("update") != 3 || h.of("start") != 3 {
		t.Fatalf("%v, calls %q\n%s", err, h.calls, strings.Join(b.said, "\n"))
	}
	for vm, req := range h.given {
		if req.Env["CADRE_PLATFORM_API"] != fewer.Platform.InCVM {
			t.Errorf("%s: %v", vm, req.Env)
		}
	}
	b.opts.Env = false
	// Without the static file on this machine, a person says that the key service allows the hash.
	h.mu.Lock()
	h.calls = nil
	h.mu.Unlock()
	byHand := b.with(t, one, "image: g@")
	byHand.Platform.KMSAuthFile = ""
	err = b.upgrade(t.Context(), t, byHand)
	if err == nil || !strings.Contains(err.Error(), "--kms-allows") || len(h.calls) > 0 {
		t.Fatalf("without a word about the key service: %v, calls %q", err, h.calls)
	}
	_, hash, _ := strings.Cut(err.Error(), "--kms-allows ")
	b.opts.KMSAllows = strings.Repeat("ab", 32)
	if err := b.upgrade(t.Context(), t, byHand); err == nil || !strings.Contains(err.Error(), "allow that one") || len(h.calls) > 0 {
		t.Errorf("with another hash: %v, calls %q", err, h.calls)
	}
	b.opts.KMSAllows = hash[:64]
	if err := b.upgrade(t.Context(), t, byHand); err != nil || b.hashes(t)[0] != hash[:64] {
		t.Errorf("with the hash: %v, hashes %q", err, b.hashes(t))
	}
	b.opts.KMSAllows = ""
	if err := os.Remove(static); err != nil {
		t.Fatal(err)
	}
	if err := b.upgrade(t.Context(), t, b.with(t, one, "image: f@")); err == nil || !strings.Contains(err.Error(), "static file") {
		t.Errorf("without the static file: %v", err)
	}
}

// TestAHostIsGoneForGood follows docs/self-hosted.md: without the node in the file a coordinator is replaced
// first, and then all of them get the new list.
func TestAHostIsGoneForGood(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	f := &fakeCoordinators{t: t, bench: b, leader: "coordinator-0", raft: "coordinator-0", broken: map[string]bool{}, silent: map[string]bool{}, lost: map[string]bool{}}
	h, one, _ := onHosts(t, b)
	if _, err := b.create(t); err == nil {
		t.Fatal("a coordinator of a fake cloud proved itself")
	}
	b.opts.Reach, b.opts.Step = f, 20*time.Second
	b.opts.Cluster = b.with(t, one, anImage)
	b.opts.Cluster.Platform.APIURL, b.opts.Cluster.Platform.InCVM, b.opts.Cluster.Platform.Nodes = "vmm:a=http://h:1", "vmm:a=http://10.0.2.2:1", []string{"a"}
	f.onNewCVM(t, "coordinator-1", 1)
	lost := b.uuids(t)[1]
	// The opened list of hosts shows no CVM of the lost one.
	if err := b.opts.Cloud.Delete(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	for len(b.names(t)) == 3 {
		time.Sleep(5 * time.Millisecond)
	}
	b.opts.Env = true
	if err := b.upgrade(t.Context(), t, b.opts.Cluster); err == nil || !strings.Contains(err.Error(), "coordinator-1 has no CVM") {
		t.Errorf("an upgrade before the replacement: %v", err)
	}
	b.opts.Env = false
	if err := b.replace(t.Context(), "coordinator-1"); err != nil {
		t.Fatalf("%v\n%s", err, strings.Join(b.said, "\n"))
	}
	if now := b.uuids(t)[1]; now == lost || h.nodes[three[1]] != "a" || h.of("update") != 0 {
		t.Errorf("CVM %s on node %s, calls %q", now, h.nodes[three[1]], h.calls)
	}
	b.opts.Env = true
	if err := b.upgrade(t.Context(), t, b.opts.Cluster); err != nil || h.of("update") != 3 {
		t.Fatalf("%v, calls %q\n%s", err, h.calls, strings.Join(b.said, "\n"))
	}
	for vm, req := range h.given {
		if req.Env["CADRE_PLATFORM_API"] != "vmm:a=http://10.0.2.2:1" {
			t.Errorf("%s: %v", vm, req.Env)
		}
	}
}

// with is the cluster file with another image, on the platform of one.
func (b *bench) with(t *testing.T, one groupfile.Cluster, image string) groupfile.Cluster {
	t.Helper()
	out := b.file(t, anImage, image)
	out.Platform = one.Platform
	return out
}

// TestTheFreestNodeIsTaken: the first of the file among the nodes with the fewest coordinators.
func TestTheFreestNodeIsTaken(t *testing.T) {
	on := func(nodes ...string) (out []platform.Instance) {
		for _, n := range nodes {
			out = append(out, platform.Instance{Node: n})
		}
		return out
	}
	for _, c := range []struct {
		nodes []string
		cvms  []platform.Instance
		want  string
	}{
		{nil, on("a"), ""}, {[]string{"a", "b"}, nil, "a"}, {[]string{"a", "b"}, on("a"), "b"}, {[]string{"a", "b"}, on("a", "b"), "a"}, {[]string{"a", "c", "d"}, on("a", "c"), "d"},
	} {
		if got := freest(c.nodes, c.cvms); got != c.want {
			t.Errorf("freest(%q, %v) = %q, want %q", c.nodes, c.cvms, got, c.want)
		}
	}
}

// TestAnInterruptedUpgradeOnHostsContinues ends the first run at each third line that it prints: a CVM may
// be stopped with its old document then, or with the new one.
func TestAnInterruptedUpgradeOnHostsContinues(t *testing.T) {
	t.Parallel()
	for stop := 1; ; stop += 3 {
		b := newBench(t)
		f := &fakeCoordinators{t: t, bench: b, leader: "coordinator-0", raft: "coordinator-0", broken: map[string]bool{}, silent: map[string]bool{}, lost: map[string]bool{}}
		h, one, _ := onHosts(t, b)
		if _, err := b.create(t); err == nil {
			t.Fatal("a coordinator of a fake cloud proved itself")
		}
		b.opts.Reach, b.opts.Step = f, 20*time.Second
		next := b.with(t, one, "image: d@")
		if b.interrupted(t, next, stop, 7) {
			return
		}
		if now := b.hashes(t); now[0] != now[1] || now[1] != now[2] || len(h.down) > 0 {
			t.Errorf("after line %d: hashes %q, down %q", stop, now, h.down)
		}
	}
}
