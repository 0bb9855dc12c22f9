package api

import (
	"errors"
	"net/netip"
	"reflect"
	"sync"
	"testing"
	"time"

	"cadre.dev/lab/natlab"
	"cadre.dev/local/internal/cloud"
	"cadre.dev/local/internal/fabric"
)

// networks records the settings.
type networks struct {
	mu   sync.Mutex
	set  map[string]fabric.Network
	cuts []fabric.Cut
	pass bool
	from string // in the counters
}

func (n *networks) Network(uuid string) fabric.Network {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.set[uuid]
}

func (n *networks) SetNetwork(uuid string, to fabric.Network) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.set[uuid] = to
	return to.Validate()
}

func (n *networks) Public(uuid string) netip.Addr {
	if n.Network(uuid).NAT == "" {
		return netip.Addr{}
	}
	return netip.MustParseAddr("198.18.0.2")
}
func (n *networks) Rebind(string) error { return errors.New("no NAT") }
func (n *networks) Cuts() []fabric.Cut  { return n.cuts }
func (n *networks) SetCuts(uuid string, both, out []string) error {
	n.cuts = nil
	for _, o := range both {
		n.cuts = append(n.cuts, fabric.Cut{From: uuid, To: o}, fabric.Cut{From: o, To: uuid})
	}
	for _, o := range out {
		n.cuts = append(n.cuts, fabric.Cut{From: uuid, To: o})
	}
	return nil
}
func (n *networks) Transit(pass bool) error { n.pass = pass; return nil }
func (n *networks) Flows() (bool, []natlab.Flow, error) {
	return n.pass, []natlab.Flow{
		{From: n.from, To: "198.18.0.6", Protocol: "udp", Passed: natlab.Count{Packets: 2, Bytes: 200}},
		{From: "198.18.0.6", To: n.from, Protocol: "udp", Passed: natlab.Count{Packets: 1, Bytes: 50}, Dropped: natlab.Count{Packets: 4, Bytes: 400}},
	}, nil
}

func TestNetworkCalls(t *testing.T) {
	r := newRig(t, cloud.Settings{})
	if code, _ := r.call("GET", "/_local/firewall", nil); code != 400 {
		t.Errorf("without networks the answer is %d", code)
	}
	r.nets = &networks{set: map[string]fabric.Network{}, pass: true}
	r.open(cloud.Settings{})
	a, b := r.create("alpha-0", "services: {}"), r.create("beta-0", "services: {}")
	uuid := a["vm_uuid"].(string)

	got := r.must(200, "PUT", "/_local/network/alpha-0", obj{
		"nat": "symmetric", "udp": "blocked", "syn": "reject", "delay": "20ms", "loss": 0.01, "rate_mbps": 200, "mtu_blackhole": 1300, "partition": []string{"beta-0"},
	})
	want := fabric.Network{
		NAT: fabric.Symmetric, BlockUDP: true, RejectSYN: true, MTUBlackhole: 1300,
		Link: natlab.Link{Delay: 20 * time.Millisecond, Loss: 0.01, RateMbps: 200},
	}
	if is := r.nets.Network(uuid); is != want {
		t.Errorf("network %+v, want %+v", is, want)
	}
	shown := obj{"nat": "symmetric", "udp": "blocked", "delay": "20ms", "public_address": "198.18.0.2", "partition": []any{"beta-0"}, "one_way": []any{}}
	for field, want := range shown {
		if !reflect.DeepEqual(got[field], want) {
			t.Errorf("%s is %v, want %v", field, got[field], want)
		}
	}
	// Absent fields stay; given ones are replaced.
	got = r.must(200, "PUT", "/_local/network/alpha-0", obj{"udp": "open", "partition": []string{}, "one_way": []string{b["name"].(string)}})
	want.BlockUDP = false
	if is := r.nets.Network(uuid); is != want || !reflect.DeepEqual(got["one_way"], []any{"beta-0"}) || !reflect.DeepEqual(got["partition"], []any{}) {
		t.Errorf("network %+v, answer %v", is, got)
	}
	if got := r.must(200, "GET", "/_local/network/alpha-0", nil); got["syn"] != "reject" || got["cvm"] != "alpha-0" {
		t.Errorf("read again: %v", got)
	}
	for _, bad := range []obj{{"udp": "closed"}, {"nta": "none"}, {"delay": 5}, {"partition": []string{"alpha-0"}}, {"partition": []string{"nobody"}}, {"loss": 3}, {"nat": "cone"}} {
		if code, got := r.call("PUT", "/_local/network/alpha-0", bad); code < 400 || code >= 500 {
			t.Errorf("%v: %d %v", bad, code, got)
		}
	}
	if code, _ := r.call("POST", "/_local/network/alpha-0/rebind", nil); code != 400 {
		t.Errorf("rebind without NAT: %d", code)
	}

	r.nets.from = uuid
	fw := r.must(200, "PUT", "/_local/firewall", obj{"cvm_to_cvm": "drop"})
	udp := fw["protocols"].(obj)["udp"].(obj)
	if fw["cvm_to_cvm"] != "drop" || !reflect.DeepEqual(udp["passed"], obj{"packets": 3.0, "bytes": 250.0}) || !reflect.DeepEqual(udp["dropped"], obj{"packets": 4.0, "bytes": 400.0}) {
		t.Errorf("firewall %v", fw)
	}
	if flow := fw["flows"].([]any)[0].(obj); flow["from"] != "alpha-0" || flow["to"] != "198.18.0.6" {
		t.Errorf("flow %v", flow)
	}
	for _, bad := range []obj{{}, {"cvm_to_cvm": "maybe"}} {
		if code, _ := r.call("PUT", "/_local/firewall", bad); code != 400 {
			t.Errorf("%v: %d", bad, code)
		}
	}
	if code, _ := r.call("GET", "/_local/rendezvous", nil); code != 400 {
		t.Errorf("without rendezvous the answer is %d", code)
	}
}
