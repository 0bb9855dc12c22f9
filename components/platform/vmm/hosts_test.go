package vmm_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/platform"
	"cadre.dev/platform/vmm"
)

// place is a host that can go away.
type place struct {
	*fakeVMM
	server *httptest.Server
}

func newPlace(t *testing.T) place {
	t.Helper()
	fake := newFake(t)
	server := httptest.NewServer(fake)
	t.Cleanup(server.Close)
	return place{fake, server}
}

// A host that does not answer is no platform that does not answer: the CVMs of the others are listed,
// its own are unknown, and nothing that depends on it is done.
func TestOneHostDoesNotAnswer(t *testing.T) {
	one, two := newPlace(t), newPlace(t)
	r := &rig{T: t, host: one.fakeVMM, Client: clientOf(t, nil, one.server.URL, two.server.URL)}
	req := r.request("a-0")
	req.Node = "a"
	if _, err := r.Create(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	req = r.request("a-1")
	req.Node, req.AppID = "b", req.Provisioned.AppID
	if _, err := r.Create(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	here, there := r.byName("a-0"), r.byName("a-1")
	if here.Node != "a" || there.Node != "b" {
		t.Fatalf("the cvms are on nodes %q and %q, want a and b", here.Node, there.Node)
	}
	two.server.Close()

	list, err := r.List(t.Context(), here.AppID)
	var lost *platform.Unanswered
	if len(list) != 1 || list[0].VMUUID != here.VMUUID || !errors.As(err, &lost) || len(lost.Nodes) != 1 || lost.Nodes[0].Node != "b" || lost.Nodes[0].Err == nil {
		t.Errorf("list = %+v, %v, want the cvm of node a, and node b unanswered", list, err)
	}
	if nodes, err := r.Nodes(t.Context()); len(nodes) != 1 || nodes[0].ID != "a" || nodes[0].Region != "r1" || !errors.As(err, &lost) {
		t.Errorf("nodes = %+v, %v, want node a, and node b unanswered", nodes, err)
	}
	if _, err := r.Describe(t.Context(), there.VMUUID); err == nil || errors.Is(err, platform.ErrNotFound) || errors.Is(err, platform.ErrRefused) {
		t.Errorf("describe of a cvm on the lost host: %v, want an error that is not its absence", err)
	}
	for _, id := range []string{there.VMUUID, "00000000-0000-4000-8000-00000000dead"} {
		if err := r.Delete(t.Context(), id); !errors.Is(err, platform.ErrBusy) || errors.Is(err, platform.ErrNotFound) {
			t.Errorf("delete of cvm %s: %v, want ErrBusy", id, err)
		}
		if _, err := r.Stop(t.Context(), id); !errors.Is(err, platform.ErrBusy) || !errors.Is(err, platform.ErrRefused) {
			t.Errorf("stop of cvm %s: %v, want ErrBusy and ErrRefused", id, err)
		}
	}
	req.Name, req.Node = "a-2", "a"
	before := one.sent("CreateVm")
	if _, err := r.Create(t.Context(), req); !errors.Is(err, platform.ErrBusy) || !errors.As(err, &lost) || one.sent("CreateVm") != before {
		t.Errorf("create while a host may have the name: %v, want ErrBusy and nothing sent", err)
	}
	if _, err := r.Stop(t.Context(), here.VMUUID); err != nil {
		t.Errorf("stop on the host that answers: %v", err)
	}
	if offer, err := r.Offer(t.Context()); err != nil || offer.OSImages == nil {
		t.Errorf("offer = %+v, %v, want the images that the lost host listed last", offer, err)
	}
	fresh := clientOf(t, nil, one.server.URL, two.server.URL)
	if offer, err := fresh.Offer(t.Context()); err != nil || offer.OSImages != nil {
		t.Errorf("offer = %+v, %v, want unknown images: the lost host never listed any", offer, err)
	}

	one.server.Close()
	if list, err := r.List(t.Context(), ""); err == nil || errors.As(err, &lost) || list != nil {
		t.Errorf("list without any host = %v, %v, want an ordinary error", list, err)
	}
}

// A host that hangs uses up its own time only, so that the others are listed within the caller's.
func TestAHostThatHangs(t *testing.T) {
	stuck := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-stuck }))
	defer hanging.Close()
	defer close(stuck)
	one := newPlace(t)
	for name, c := range map[string]struct{ own, callers time.Duration }{
		"its own time":           {2 * time.Second, time.Minute},
		"a part of the caller's": {time.Hour, 6 * time.Second},
	} {
		r := &rig{T: t, Client: clientOf(t, func(cfg *vmm.Config) { cfg.CallTimeout = c.own }, one.server.URL, hanging.URL)}
		ctx, cancel := context.WithTimeout(t.Context(), c.callers)
		list, err := r.List(ctx, "")
		var lost *platform.Unanswered
		if !errors.As(err, &lost) || lost.Nodes[0].Node != "b" || list == nil {
			t.Errorf("%s: list = %v, %v, want node b unanswered", name, list, err)
		}
		cancel()
	}
}

// The place of a CVM is a hint: a directory that was copied to another host is found there, and a
// directory on two hosts is changed on neither.
func TestACVMThatMoved(t *testing.T) {
	one, two := newPlace(t), newPlace(t)
	r := &rig{T: t, host: one.fakeVMM, Client: clientOf(t, nil, one.server.URL, two.server.URL)}
	req := r.request("a-0")
	req.Node = "a"
	if _, err := r.Create(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	made := r.byName("a-0")
	two.mu.Lock()
	two.vms = append(two.vms, one.vms[0])
	two.mu.Unlock()
	fresh := clientOf(t, nil, one.server.URL, two.server.URL)
	if _, err := fresh.Stop(t.Context(), made.VMUUID); !errors.Is(err, platform.ErrBusy) || one.sent("ShutdownVm")+two.sent("ShutdownVm") != 0 {
		t.Errorf("stop of a cvm on two hosts: %v, want ErrBusy and nothing sent", err)
	}
	one.mu.Lock()
	one.vms = nil
	one.mu.Unlock()
	if now, err := r.Describe(t.Context(), made.VMUUID); err != nil || now.Node != "b" {
		t.Errorf("describe of a moved cvm = %+v, %v, want it on node b", now, err)
	}
}

// Without a named node the CVM goes to the host with the fewest CVMs that has the image.
func TestWhereACVMIsMade(t *testing.T) {
	one, two, three := newPlace(t), newPlace(t), newPlace(t)
	three.images = []string{"dstack-0.6.0"}
	r := &rig{T: t, Client: clientOf(t, nil, one.server.URL, two.server.URL, three.server.URL)}
	want := []string{"a", "b", "a", "b"}
	for n, node := range want {
		name := "a-" + string(rune('0'+n))
		req := r.request(name)
		if n > 0 {
			req.AppID = req.Provisioned.AppID
		}
		if _, err := r.Create(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		if i := r.byName(name); i.Node != node {
			t.Errorf("%s is on node %s, want %s", name, i.Node, node)
		}
	}
	req := r.request("a-9")
	req.AppID, req.Node = req.Provisioned.AppID, "c"
	if _, err := r.Create(t.Context(), req); !errors.Is(err, platform.ErrNotOffered) || !errors.Is(err, platform.ErrRefused) {
		t.Errorf("create on a host without the image: %v, want ErrNotOffered", err)
	}
	offer, err := r.Offer(t.Context())
	if err != nil || !slices.Equal(offer.OSImages, []string{"dstack-0.5.11", "dstack-0.5.9", "dstack-0.6.0"}) {
		t.Errorf("offer = %+v, %v, want the images of all hosts", offer, err)
	}
	tmpl := template(1)
	tmpl.OSImage = "dstack-0.6.0"
	if _, err := r.Provision(t.Context(), r.byName("a-0").VMUUID, tmpl); !errors.Is(err, platform.ErrNotOffered) || !strings.Contains(err.Error(), "node a") {
		t.Errorf("provision of an image that the cvm's host lacks: %v, want ErrNotOffered with the node", err)
	}
}

func TestWhatHostsSay(t *testing.T) {
	one := newPlace(t)
	one.modes = []string{"user", "bridge"}
	one.gpus = []map[string]any{{"slot": "18:00.0", "product_id": "10de:2335", "description": "H200", "is_free": true}}
	hosts, err := clientOf(t, nil, one.server.URL).Hosts(t.Context())
	if err != nil || len(hosts) != 1 {
		t.Fatalf("hosts = %+v, %v", hosts, err)
	}
	h := hosts[0]
	if h.Version != "0.5.11" || !slices.Equal(h.KMSURLs, []string{"https://kms.test"}) || !slices.Equal(h.GatewayURLs, []string{"https://gw.test"}) ||
		h.GatewayDomain != "gw.fake.test" || !slices.Equal(h.NetworkingModes, one.modes) || len(h.GPUs) != 1 || !h.GPUs[0].Free || h.CVMSlots != 10 {
		t.Errorf("the host says %+v", h)
	}
}

// A listing reads the files of many CVMs in batches, and misses none.
func TestManyCVMs(t *testing.T) {
	r := newRig(t)
	r.create("a-0")
	r.host.mu.Lock()
	for n := range 50 {
		vm := *r.host.vms[0]
		vm.id = vm.id[:34] + string(rune('0'+n/10)) + string(rune('0'+n%10))
		r.host.vms = append(r.host.vms, &vm)
	}
	r.host.mu.Unlock()
	list, err := r.List(t.Context(), "")
	if err != nil || len(list) != 51 {
		t.Fatalf("%d cvms, %v, want 51", len(list), err)
	}
	for _, i := range list {
		if i.ComposeHash == "" || i.InstanceType != "tdx.small" {
			t.Errorf("a cvm of a long list reads %+v", i)
		}
	}
}

func TestAHostBehindASocket(t *testing.T) {
	fake := newFake(t)
	socket := filepath.Join(t.TempDir(), "vmm.sock")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: fake, ReadHeaderTimeout: time.Minute}}
	server.Start()
	defer server.Close()
	r := &rig{T: t, host: fake, Client: clientOf(t, nil, "unix://"+socket)}
	if i := r.create("a-0"); !i.Running() {
		t.Errorf("the cvm reads %+v", i)
	}
}

// The token goes to the hosts, and into no error. A redirect would carry it elsewhere.
func TestTheToken(t *testing.T) {
	const token = "s3cret-token"
	withToken := func(c *vmm.Config) { c.Token = token }
	fake := newFake(t)
	fake.token = token
	url := fake.serve(t)
	if list, err := clientOf(t, withToken, url).List(t.Context(), ""); err != nil || len(list) != 0 {
		t.Errorf("list with the token = %v, %v", list, err)
	}
	fake.token = "another"
	c := clientOf(t, withToken, url)
	_, err := c.Offer(t.Context())
	if err == nil || strings.Contains(err.Error(), token) || !strings.Contains(err.Error(), "check the token") {
		t.Errorf("with a wrong token: %v, want an error that names the way out and not the token", err)
	}
	elsewhere := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere++ }))
	defer other.Close()
	from := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer from.Close()
	if _, err := clientOf(t, withToken, from.URL).List(t.Context(), ""); err == nil || elsewhere != 0 || !strings.Contains(err.Error(), "redirects are refused") {
		t.Errorf("list over a redirect: %v with %d requests elsewhere, want an error and none", err, elsewhere)
	}
}

// Bad answers are errors: none is an empty list, or an absent CVM.
func TestAnswersOfAnotherForm(t *testing.T) {
	for name, body := range map[string]string{
		"a page": "<html>", "null": "null", "nothing": "", "no list": `{"total":0}`, "a list of nothing": `{"vms":null}`, "too much": `{"vms":"` + strings.Repeat("x", 9<<20) + `"}`,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }))
		c := clientOf(t, nil, server.URL)
		if list, err := c.List(t.Context(), ""); err == nil {
			t.Errorf("%s: list = %v without an error", name, list)
		}
		if _, err := c.Describe(t.Context(), "00000000-0000-4000-8000-00000000dead"); err == nil || errors.Is(err, platform.ErrNotFound) {
			t.Errorf("%s: describe: %v, want an error that is not the cvm's absence", name, err)
		}
		server.Close()
	}
	for _, id := range []string{"", "..", "a/b", "name"} {
		if _, err := clientOf(t, nil, "http://127.0.0.1:1").Describe(t.Context(), id); !errors.Is(err, platform.ErrRefused) {
			t.Errorf("describe of %q: %v, want ErrRefused", id, err)
		}
	}
}
