package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"cadre.dev/local/internal/fabric"
)

// Platforms of a cloud: the API that it speaks.
const (
	// Phala is Phala Cloud's REST API.
	Phala = "phala"
	// VMM is the RPC of dstack-vmm, with an endpoint for each host.
	VMM = "vmm"
)

// DefaultHosts are the hosts of a cloud of platform vmm without others.
const DefaultHosts = "host-a,host-b"

// firstHostPort is the port of the first host's endpoint in the fabric.
const firstHostPort = 8101

const maxHosts = 64

// Host is one host of a cloud of platform vmm.
type Host struct {
	Name string
	// Listen is a host address; empty: that of the last start, at first a free port of the loopback.
	Listen string
}

var hostForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)

// ParseHosts reads a list such as "host-a,host-b=127.0.0.1:8102".
func ParseHosts(text string) ([]Host, error) {
	var out []Host
	for item := range strings.SplitSeq(text, ",") {
		var h Host
		h.Name, h.Listen, _ = strings.Cut(strings.TrimSpace(item), "=")
		switch {
		case !hostForm.MatchString(h.Name):
			return nil, fmt.Errorf("%.80q is no name of a host: use small letters, digits and dashes, up to 32, such as %s", h.Name, DefaultHosts)
		case slices.ContainsFunc(out, func(o Host) bool { return o.Name == h.Name }):
			return nil, fmt.Errorf("host %s is named twice", h.Name)
		}
		out = append(out, h)
	}
	if len(out) > maxHosts {
		return nil, fmt.Errorf("%d hosts are too many; the limit is %d", len(out), maxHosts)
	}
	return out, nil
}

// startedHost is a host of the last start.
type startedHost struct {
	Name    string `json:"name"`
	Address string `json:"address"`
}

// HostFile describes the endpoint of one host in cloud.json.
type HostFile struct {
	Name     string `json:"name"`
	URL      string `json:"url"`
	URLInCVM string `json:"url_in_cvm"`
}

// hostListeners are the two ways to the endpoint of one host.
type hostListeners struct {
	name         string
	host, fabric net.Listener
}

func listenHosts(ctx context.Context, fab *fabric.Fabric, cfg Config, last started, hasCVMs bool) (out []hostListeners, err error) {
	var errs []error
	for i, h := range cfg.Hosts {
		a := hostAddress{name: "endpoint of " + h.Name, flag: "hosts " + h.Name, want: cmp.Or(h.Listen, anyPort), hasCVMs: hasCVMs}
		if n := slices.IndexFunc(last.Hosts, func(had startedHost) bool { return had.Name == h.Name }); n >= 0 {
			a.had = last.Hosts[n].Address
		}
		l := hostListeners{name: h.Name}
		var hostErr, fabricErr error
		l.host, hostErr = a.listen(ctx)
		l.fabric, fabricErr = fab.Listen(ctx, firstHostPort+i)
		errs = append(errs, hostErr, fabricErr)
		out = append(out, l)
	}
	return out, errors.Join(errs...)
}

// apiText is the text by which a driver reaches the endpoints.
func apiText(hosts []HostFile, url func(HostFile) string) string {
	parts := make([]string, 0, len(hosts))
	for _, h := range hosts {
		parts = append(parts, h.Name+"="+url(h))
	}
	return VMM + ":" + strings.Join(parts, ",")
}

// describeHosts fills the fields of cloud.json that name endpoints.
func (f *CloudFile) describeHosts(listeners []hostListeners) {
	for i, l := range listeners {
		inCVM := netip.AddrPortFrom(fabric.Address, uint16(firstHostPort+i))
		f.Hosts = append(f.Hosts, HostFile{Name: l.name, URL: "http://" + l.host.Addr().String(), URLInCVM: "http://" + inCVM.String()})
	}
	f.APIURL = apiText(f.Hosts, func(h HostFile) string { return h.URL })
	f.APIURLInCVM = apiText(f.Hosts, func(h HostFile) string { return h.URLInCVM })
}

func hostNames(hosts []Host) []string {
	out := make([]string, 0, len(hosts))
	for _, h := range hosts {
		out = append(out, h.Name)
	}
	return out
}
