package natlab

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Flow counts the packets of one host to another across the internet: between their
// public addresses, in one protocol.
type Flow struct {
	// From and To are hosts' names; of hosts that share a box, the first; of hosts
	// that are gone, the address.
	From string `json:"from"`
	To   string `json:"to"`
	// Protocol is "udp", "tcp", "icmp" or the kernel's name of another protocol.
	Protocol string `json:"protocol"`
	Passed   Count  `json:"passed"`
	// Dropped counts the packets that SetTransit(false) dropped. Other faults are behind
	// this point or before it, and are not counted here.
	Dropped Count `json:"dropped"`
}

// Count counts packets as the kernel moves them: a large packet that is cut in segments
// later counts once.
type Count struct {
	Packets int64 `json:"packets"`
	Bytes   int64 `json:"bytes"`
}

const transitTable = "transit"

// transitRules keep direct hosts to themselves, count the rest, and let it pass
// or not.
func (l *Lab) transitRules() string {
	var b strings.Builder
	fmt.Fprintf(&b, "table ip %s {\n", transitTable)
	for _, name := range []string{"passed", "dropped"} {
		fmt.Fprintf(&b, "set %s { type ipv4_addr . ipv4_addr . inet_proto; size 65535; flags dynamic; counter; }\n", name)
	}
	fmt.Fprintf(&b, "chain guard { type filter hook forward priority -20;\niifname \"%s*\" drop\noifname \"%s*\" drop\n}\n", direct, direct)
	b.WriteString("chain forward { type filter hook forward priority 10;\njump verdict\n}\n")
	fmt.Fprintf(&b, "chain verdict {\n%s}\n}\n", l.verdict(l.shut))
	return b.String()
}

func (l *Lab) verdict(shut bool) string {
	const count = "update @%s { ip saddr . ip daddr . meta l4proto }\n"
	switch {
	case shut:
		return fmt.Sprintf(count, "dropped") + "drop\n"
	case l.cfg.Watch:
		return fmt.Sprintf(count, "passed")
	}
	return ""
}

// SetTransit lets hosts' packets to each other pass the internet (true, as at the
// beginning) or drops all of them. Packets to and from Config.Router always pass. Needs
// Config.Watch.
func (l *Lab) SetTransit(pass bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.cfg.Watch {
		return errors.New("the lab does not watch its hosts")
	}
	if l.open { // else forward will
		err := l.internet.space.Rules(fmt.Sprintf("flush chain ip %s verdict\ntable ip %s {\nchain verdict {\n%s}\n}\n",
			transitTable, transitTable, l.verdict(!pass)))
		if err != nil {
			return err
		}
	}
	l.shut = !pass
	return nil
}

// Flows are the counters since the beginning, sorted. Needs Config.Watch.
func (l *Lab) Flows() ([]Flow, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.cfg.Watch {
		return nil, errors.New("the lab does not watch its hosts")
	}
	if !l.open {
		return nil, nil
	}
	raw, err := l.internet.space.ListRules("-j", "list", "table", "ip", transitTable)
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	for name, h := range l.hosts {
		if at := h.seen().String(); names[at] == "" || name < names[at] {
			names[at] = name
		}
	}
	flows := map[[3]string]*Flow{}
	err = eachCounter(raw, func(set string, key [3]string, c Count) {
		f := flows[key]
		if f == nil {
			f = &Flow{From: cmp.Or(names[key[0]], key[0]), To: cmp.Or(names[key[1]], key[1]), Protocol: key[2]}
			flows[key] = f
		}
		if set == "passed" {
			f.Passed = c
		} else {
			f.Dropped = c
		}
	})
	if err != nil {
		return nil, fmt.Errorf("read counters: %w", err)
	}
	out := make([]Flow, 0, len(flows))
	for _, f := range flows {
		out = append(out, *f)
	}
	slices.SortFunc(out, func(a, b Flow) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), cmp.Compare(a.Protocol, b.Protocol))
	})
	return out, nil
}

// eachCounter parses nft's JSON about sets of (source, destination, protocol) with
// counters.
func eachCounter(raw []byte, found func(set string, key [3]string, c Count)) error {
	var list struct {
		Nftables []struct {
			Set struct {
				Name string
				Elem []struct {
					Elem struct {
						Val     struct{ Concat []json.RawMessage }
						Counter Count
					}
				}
			}
		}
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return err
	}
	for _, n := range list.Nftables {
		for _, e := range n.Set.Elem {
			var key [3]string
			if len(e.Elem.Val.Concat) != len(key) {
				return fmt.Errorf("an element of set %s has %d parts", n.Set.Name, len(e.Elem.Val.Concat))
			}
			for i, part := range e.Elem.Val.Concat {
				key[i] = strings.Trim(string(part), `"`) // a protocol without a name is a number
				if i < 2 {
					if _, err := netip.ParseAddr(key[i]); err != nil {
						return err
					}
				}
			}
			found(n.Set.Name, key, e.Elem.Counter)
		}
	}
	return nil
}
