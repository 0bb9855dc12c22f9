package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"cadre.dev/lab/natlab"
	"cadre.dev/local/internal/cloud"
	"cadre.dev/local/internal/fabric"
)

// Networks are the connections of CVMs, by UUID. Safe for concurrent use.
type Networks interface {
	Network(uuid string) fabric.Network
	// SetNetwork is for now and for later boots.
	SetNetwork(uuid string, n fabric.Network) error
	Public(uuid string) netip.Addr
	Rebind(uuid string) error
	Cuts() []fabric.Cut
	SetCuts(uuid string, both, out []string) error
	Transit(pass bool) error
	Flows() (passing bool, flows []natlab.Flow, err error)
}

var _ Networks = (*fabric.Fabric)(nil)

var errNoNetworks = errors.New("this cloud has no networks")

// networkBody is a CVM's network. Fields that are absent in a PUT stay.
type networkBody struct {
	NAT          *fabric.NAT     `json:"nat,omitempty"`
	UDP          *string         `json:"udp,omitempty"`
	SYN          *string         `json:"syn,omitempty"`
	Delay        *cloud.Duration `json:"delay,omitempty"`
	Jitter       *cloud.Duration `json:"jitter,omitempty"`
	RateMbps     *int            `json:"rate_mbps,omitempty"`
	QueueBytes   *int            `json:"queue_bytes,omitempty"`
	Loss         *float64        `json:"loss,omitempty"`
	Reorder      *float64        `json:"reorder,omitempty"`
	MTUBlackhole *int            `json:"mtu_blackhole,omitempty"`
	// Partition and OneWay are CVMs. Traffic between this CVM and those in Partition is dropped in
	// both directions; traffic from this CVM to those in OneWay is dropped.
	Partition *[]string `json:"partition,omitempty"`
	OneWay    *[]string `json:"one_way,omitempty"`
}

func (s *Server) getNetwork(r *http.Request) (int, any, error) {
	v, err := s.networked(r)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, s.networkView(v), nil
}

func (s *Server) putNetwork(r *http.Request) (int, any, error) {
	v, err := s.networked(r)
	if err != nil {
		return 0, nil, err
	}
	var b networkBody
	if err := decodeStrictly(r, &b); err != nil {
		return 0, nil, err
	}
	n := s.cfg.Networks.Network(v.VMUUID)
	if err := b.merge(&n); err != nil {
		return 0, nil, err
	}
	both, out := s.cuts(v.VMUUID)
	if b.Partition != nil {
		if both, err = s.uuids(v.VMUUID, *b.Partition); err != nil {
			return 0, nil, fmt.Errorf("partition: %w", err)
		}
	}
	if b.OneWay != nil {
		if out, err = s.uuids(v.VMUUID, *b.OneWay); err != nil {
			return 0, nil, fmt.Errorf("one_way: %w", err)
		}
	}
	if err := s.cfg.Networks.SetNetwork(v.VMUUID, n); err != nil {
		return 0, nil, err
	}
	if b.Partition != nil || b.OneWay != nil {
		if err := s.cfg.Networks.SetCuts(v.VMUUID, both, out); err != nil {
			return 0, nil, err
		}
	}
	return http.StatusOK, s.networkView(v), nil
}

// merge sets the given fields in n.
func (b networkBody) merge(n *fabric.Network) error {
	set(b.NAT, &n.NAT)
	set(b.RateMbps, &n.Link.RateMbps)
	set(b.QueueBytes, &n.Link.QueueBytes)
	set(b.Loss, &n.Link.Loss)
	set(b.Reorder, &n.Link.Reorder)
	set(b.MTUBlackhole, &n.MTUBlackhole)
	if b.Delay != nil {
		n.Link.Delay = time.Duration(*b.Delay)
	}
	if b.Jitter != nil {
		n.Link.Jitter = time.Duration(*b.Jitter)
	}
	return errors.Join(choose("udp", b.UDP, "open", "blocked", &n.BlockUDP), choose("syn", b.SYN, "drop", "reject", &n.RejectSYN))
}

func set[T any](from, to *T) {
	if from != nil {
		*to = *from
	}
}

// choose reads one of two words.
func choose(field string, word *string, no, yes string, to *bool) error {
	switch {
	case word == nil:
	case *word == no:
		*to = false
	case *word == yes:
		*to = true
	default:
		return fmt.Errorf("%s: %q is not %s or %s", field, *word, no, yes)
	}
	return nil
}

func (s *Server) networkView(v cloud.CVM) map[string]any {
	n := s.cfg.Networks.Network(v.VMUUID)
	both, out := s.cuts(v.VMUUID)
	view := map[string]any{
		"cvm": v.Name, "nat": fabric.NoNAT, "udp": "open", "syn": "drop", "delay": cloud.Duration(n.Link.Delay), "jitter": cloud.Duration(n.Link.Jitter),
		"rate_mbps": n.Link.RateMbps, "queue_bytes": n.Link.QueueBytes, "loss": n.Link.Loss, "reorder": n.Link.Reorder,
		"mtu_blackhole": n.MTUBlackhole, "partition": s.names(both), "one_way": s.names(out), "address": nil, "public_address": nil,
	}
	if n.NAT != "" {
		view["nat"] = n.NAT
	}
	if n.BlockUDP {
		view["udp"] = "blocked"
	}
	if n.RejectSYN {
		view["syn"] = "reject"
	}
	if m, ok := s.cfg.Cloud.Machine(v.VMUUID); ok {
		view["address"] = m.Addr().String()
	}
	if at := s.cfg.Networks.Public(v.VMUUID); at.IsValid() {
		view["public_address"] = at.String()
	}
	return view
}

// cuts are the CVMs that the named one is cut off from: in both directions, and for its own
// packets.
func (s *Server) cuts(uuid string) (both, out []string) {
	all := s.cfg.Networks.Cuts()
	for _, c := range all {
		if c.From != uuid {
			continue
		}
		if slices.Contains(all, fabric.Cut{From: c.To, To: uuid}) {
			both = append(both, c.To)
		} else {
			out = append(out, c.To)
		}
	}
	return both, out
}

func (s *Server) rebind(r *http.Request) (int, any, error) {
	v, err := s.networked(r)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusNoContent, nil, s.cfg.Networks.Rebind(v.VMUUID)
}

func (s *Server) networked(r *http.Request) (cloud.CVM, error) {
	if s.cfg.Networks == nil {
		return cloud.CVM{}, errNoNetworks
	}
	return s.cfg.Cloud.Find(r.PathValue("cvm"))
}

// uuids finds the CVMs of refs, which must be others than self.
func (s *Server) uuids(self string, refs []string) ([]string, error) {
	var out []string
	for _, ref := range refs {
		v, err := s.cfg.Cloud.Find(ref)
		if err != nil {
			return nil, err
		}
		if v.VMUUID == self {
			return nil, fmt.Errorf("%s cannot be cut off from itself", v.Name)
		}
		out = append(out, v.VMUUID)
	}
	return out, nil
}

// names are the sorted names of CVMs; a deleted CVM keeps its UUID.
func (s *Server) names(uuids []string) []string {
	out := []string{}
	for _, id := range uuids {
		out = append(out, s.name(id))
	}
	slices.Sort(out)
	return out
}

func (s *Server) name(uuid string) string {
	if v, err := s.cfg.Cloud.Find(uuid); err == nil {
		return v.Name
	}
	return uuid
}

func (s *Server) getFirewall(*http.Request) (int, any, error) {
	if s.cfg.Networks == nil {
		return 0, nil, errNoNetworks
	}
	passing, flows, err := s.cfg.Networks.Flows()
	if err != nil {
		return 0, nil, err
	}
	verdict := "drop"
	if passing {
		verdict = "allow"
	}
	type sum struct {
		Passed  natlab.Count `json:"passed"`
		Dropped natlab.Count `json:"dropped"`
	}
	sums := map[string]sum{"udp": {}, "tcp": {}, "icmp": {}}
	for i, f := range flows {
		flows[i].From, flows[i].To = s.name(f.From), s.name(f.To)
		t := sums[f.Protocol]
		t.Passed.Packets, t.Passed.Bytes = t.Passed.Packets+f.Passed.Packets, t.Passed.Bytes+f.Passed.Bytes
		t.Dropped.Packets, t.Dropped.Bytes = t.Dropped.Packets+f.Dropped.Packets, t.Dropped.Bytes+f.Dropped.Bytes
		sums[f.Protocol] = t
	}
	if flows == nil {
		flows = []natlab.Flow{}
	}
	return http.StatusOK, map[string]any{"cvm_to_cvm": verdict, "protocols": sums, "flows": flows}, nil
}

func (s *Server) putFirewall(r *http.Request) (int, any, error) {
	if s.cfg.Networks == nil {
		return 0, nil, errNoNetworks
	}
	var b struct {
		CVMToCVM *string `json:"cvm_to_cvm"`
	}
	if err := decodeStrictly(r, &b); err != nil {
		return 0, nil, err
	}
	if b.CVMToCVM == nil {
		return 0, nil, errors.New("cvm_to_cvm: is missing; say allow or drop")
	}
	var pass bool
	if err := choose("cvm_to_cvm", b.CVMToCVM, "drop", "allow", &pass); err != nil {
		return 0, nil, err
	}
	if err := s.cfg.Networks.Transit(pass); err != nil {
		return 0, nil, err
	}
	return s.getFirewall(r)
}

// decodeStrictly refuses unknown fields: a misspelt fault that does nothing makes
// a test pass for the wrong reason.
func decodeStrictly(r *http.Request, v any) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return badBody("value_error", err.Error())
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return badBody("value_error", err.Error())
	}
	return nil
}
