package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"cadre.dev/overlay/rendezvous"
)

type options struct {
	config      rendezvous.Config
	caFile      string
	logLevel    string
	showVersion bool
}

const intro = `cadre-rendezvous is the public meeting place of Cadre's overlays: members of a
cluster leave each other signed, sealed messages, learn their public addresses
(STUN), and relay through it where no direct path exists (TURN).

It is trusted with liveness only: it holds no secret that would let it read,
join or impersonate. Run as many as you like; members use all that answer.

  cadre-rendezvous --relay-ip 198.51.100.7 --roots /etc/cadre/roots

serves the clusters whose CA certificates are in /etc/cadre/roots, one
<cluster>.pem for each, read again when they change. Open TCP 443, TCP and UDP
3478, and UDP 49152-65535.

Flags:
`

var levels = []string{"trace", "debug", "info", "warn", "error"}

func parse(args []string, stdout io.Writer) (options, error) {
	var (
		o                               options
		relayIP, relayBind, ports, stun string
		advertise, names                string
	)
	c, l := &o.config, &o.config.Limits
	set := flag.NewFlagSet("cadre-rendezvous", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.StringVar(&c.Listen, "listen", ":443", "`address` for members, HTTPS with client certificates")
	set.StringVar(&c.Admin, "admin", "127.0.0.1:9478", "`address` for /metrics and /healthz, plain HTTP; empty: none")
	set.StringVar(&c.Roots, "roots", "", "`directory` with the CA of each cluster, <cluster>.pem (required)")
	set.StringVar(&c.CertFile, "tls-cert", "", "`file` with the server's certificate chain, PEM; read again when it changes. Without it a self-signed one is made")
	set.StringVar(&c.KeyFile, "tls-key", "", "`file` with the key of --tls-cert, PEM")
	set.StringVar(&names, "names", "", "`names` of the self-signed certificate, separated by commas: host names and addresses by which members connect. The host of --listen and --relay-ip are always among them")
	set.StringVar(&c.StateDir, "state-dir", "", "`directory` that keeps the self-signed certificate; empty: a new one at each start. Not used with --tls-cert")
	set.StringVar(&o.caFile, "ca-out", "", "`file` to write the self-signed certificate to, for members to trust")
	set.StringVar(&stun, "stun", ":3478", "`addresses` for STUN and TURN, each over UDP and TCP, separated by commas; TURN over TLS is at --listen; empty: mailboxes only")
	set.StringVar(&relayIP, "relay-ip", "", "IPv4 `address` by which others reach this machine (required with --stun)")
	set.StringVar(&relayBind, "relay-bind", "", "IPv4 `address` to bind relay sockets to; empty: --relay-ip if this machine has it, else all")
	set.StringVar(&ports, "relay-ports", "49152-65535", "`range` of UDP ports for relaying; empty: any")
	set.StringVar(&advertise, "advertise", "", "ip:port `addresses` by which members reach STUN, separated by commas; empty: --relay-ip with the ports of --stun")
	set.BoolVar(&c.AllowPrivateRelay, "allow-private-relay", false, "relay into private address ranges too. For labs: it opens the networks that this machine can reach to every member")
	set.BoolVar(&c.Revocations, "revocations", true, "let the coordinators of a cluster end its boots at once")
	set.IntVar(&l.Allocations, "max-allocations", 64, "relay allocations of one identity")
	set.IntVar(&l.AllAllocations, "max-all-allocations", 4096, "relay allocations of all")
	set.IntVar(&l.RelayBytes, "max-relay-bytes", 32<<20, "bytes relayed for one identity in a second")
	set.IntVar(&l.Sockets, "max-members", 8192, "members connected at once")
	set.IntVar(&l.PerSource, "max-per-address", 256, "connections of one IPv4 address or IPv6 /64 at once; clusters behind one address share it")
	set.IntVar(&l.Memory, "max-memory", 64<<20, "bytes of messages that wait")
	set.IntVar(&l.Requests, "max-requests", 20, "requests of one identity in a second, messages among them; three times as many and a few may come at once")
	set.DurationVar(&l.CredentialLife, "credential-life", 10*time.Minute, "how long relay credentials are good, at most 10m")
	set.DurationVar(&c.Drain, "drain", 20*time.Second, "how long allocations may go on after SIGTERM")
	set.StringVar(&o.logLevel, "log-level", "info", strings.Join(levels, ", "))
	set.BoolVar(&o.showVersion, "version", false, "print the version and exit")
	if err := set.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			usage(set, stdout)
		}
		return o, err
	}
	if o.showVersion {
		return o, nil
	}
	var errs []error
	if set.NArg() > 0 {
		errs = append(errs, fmt.Errorf("unexpected argument %q", set.Arg(0)))
	}
	if c.Roots == "" {
		errs = append(errs, errors.New("--roots is required"))
	}
	l.RequestsBurst = 3*l.Requests + 4
	c.STUN, c.Advertise, c.Names = list(stun), list(advertise), list(names)
	if len(c.STUN) > 0 && relayIP == "" {
		errs = append(errs, errors.New(`--relay-ip is required, or --stun "" for mailboxes only`))
	}
	var err error
	if c.RelayIP, err = addr("--relay-ip", relayIP); err != nil {
		errs = append(errs, err)
	}
	if c.RelayBind, err = addr("--relay-bind", relayBind); err != nil {
		errs = append(errs, err)
	}
	if c.PortMin, c.PortMax, err = portRange(ports); err != nil {
		errs = append(errs, err)
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		errs = append(errs, errors.New("--tls-cert and --tls-key come together"))
	}
	if c.CertFile != "" && (o.caFile != "" || names != "") {
		errs = append(errs, errors.New("--names and --ca-out are for a self-signed certificate, not for --tls-cert"))
	}
	if !slices.Contains(levels, o.logLevel) {
		errs = append(errs, fmt.Errorf("--log-level %q: want one of %s", o.logLevel, strings.Join(levels, ", ")))
	}
	for name, value := range map[string]string{"--listen": c.Listen, "--admin": c.Admin} {
		if _, _, err := net.SplitHostPort(value); err != nil && value != "" {
			errs = append(errs, fmt.Errorf("%s %q: want host:port or :port", name, value))
		}
	}
	for _, n := range []struct {
		flag  string
		value int
	}{
		{"--max-allocations", l.Allocations}, {"--max-all-allocations", l.AllAllocations},
		{"--max-relay-bytes", l.RelayBytes}, {"--max-members", l.Sockets}, {"--max-per-address", l.PerSource},
		{"--max-memory", l.Memory}, {"--max-requests", l.Requests},
	} {
		if n.value <= 0 {
			errs = append(errs, fmt.Errorf("%s %d: want more than 0", n.flag, n.value))
		}
	}
	if l.CredentialLife <= 0 || l.CredentialLife > 10*time.Minute {
		errs = append(errs, fmt.Errorf("--credential-life %v: want more than 0 and at most 10m", l.CredentialLife))
	}
	return o, errors.Join(errs...)
}

// usage prints the flags with two dashes, as they are written everywhere else.
func usage(set *flag.FlagSet, w io.Writer) {
	_, _ = fmt.Fprint(w, intro)
	set.VisitAll(func(f *flag.Flag) {
		value, text := flag.UnquoteUsage(f)
		if value != "" {
			value = " " + value
		}
		_, _ = fmt.Fprintf(w, "  --%s%s\n    \t%s", f.Name, value, text)
		if f.DefValue != "" && f.DefValue != "false" {
			_, _ = fmt.Fprintf(w, " (default %s)", f.DefValue)
		}
		_, _ = fmt.Fprintln(w)
	})
}

func list(s string) []string {
	var all []string
	for one := range strings.SplitSeq(s, ",") {
		if one = strings.TrimSpace(one); one != "" {
			all = append(all, one)
		}
	}
	return all
}

func addr(name, s string) (netip.Addr, error) {
	if s == "" {
		return netip.Addr{}, nil
	}
	a, err := netip.ParseAddr(s)
	if err != nil || !a.Is4() {
		return netip.Addr{}, fmt.Errorf("%s %q: want an IPv4 address", name, s)
	}
	return a, nil
}

func portRange(s string) (low, high uint16, err error) {
	if s == "" {
		return 0, 0, nil
	}
	a, b, ok := strings.Cut(s, "-")
	x, err1 := strconv.ParseUint(a, 10, 16)
	y, err2 := strconv.ParseUint(b, 10, 16)
	if !ok || err1 != nil || err2 != nil || x < 1024 || x > y {
		return 0, 0, fmt.Errorf("--relay-ports %q: want a range like 49152-65535, from 1024 up", s)
	}
	return uint16(x), uint16(y), nil
}

// writeCA gives members the certificate to trust.
func (o *options) writeCA(ca []byte) error {
	if o.caFile == "" {
		return nil
	}
	if err := os.WriteFile(o.caFile, ca, 0o644); err != nil { //nolint:gosec // a certificate is public
		return fmt.Errorf("write the self-signed certificate: %w", err)
	}
	return nil
}
