package daemon

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"

	"cadre.dev/attest/attestsim"
	"cadre.dev/local/internal/api"
	"cadre.dev/local/internal/cloud"
	"cadre.dev/local/internal/fabric"
	"cadre.dev/local/internal/fault"
	"cadre.dev/local/internal/gateway"
	"cadre.dev/local/internal/images"
	"cadre.dev/local/internal/imagestore"
	"cadre.dev/local/internal/machine"
	"cadre.dev/local/internal/registry"
	"cadre.dev/local/internal/rendezvous"
	"cadre.dev/local/internal/vmmapi"
)

// Config is one daemon.
type Config struct {
	StateDir string
	// Images maps image repositories to programs of this machine, which need no image.
	Images images.Map
	// Layout is the OCI layout folder whose images the cloud's registry serves and CVMs
	// boot; empty is none. ImageStore is where they are unpacked; empty is a folder in
	// StateDir.
	Layout     string
	ImageStore string
	// Pulls carries the pulls of images; nil: a transport of its own.
	Pulls http.RoundTripper
	// APIListen, GatewayListen and RegistryListen are host addresses. Port 0 is the port
	// of the last start, for a new cloud a free one; empty is port 0 of the loopback.
	APIListen      string
	GatewayListen  string
	RegistryListen string
	// Platform is the API that the cloud speaks; empty is Phala. Hosts are those of VMM, in an order
	// that stays.
	Platform string
	Hosts    []Host
	// Domain is the base domain of gateway names; empty is that of the last start.
	Domain string
	// Flags are for LastFlags at the next start.
	Flags map[string]string
	// Network is that of every CVM that was not given another one.
	Network  fabric.Network
	Settings cloud.Settings
	// Rendezvous is the program that runs in the fabric for CVMs to find each other
	// with; empty runs none.
	Rendezvous string
	// Program is this binary, for pid 1 of the CVMs; Become the path of cadre-become.
	Program string
	Become  string
	// StopGrace bounds the orderly stop of all CVMs at the end.
	StopGrace time.Duration
	Log       *slog.Logger
}

const (
	gatewayPort = 443
	apiPort     = 80

	defaultDomain = "gw.cadre.test"
)

// Serve runs the cloud until ctx ends and leaves nothing running. ready, when
// not nil, is called once cloud.json is written.
func Serve(ctx context.Context, cfg Config, ready func(CloudFile)) (err error) {
	dir, err := openStateDir(cfg.StateDir)
	if err != nil {
		return err
	}
	defer dir.close()
	if _, err := dir.cleanUp(); err != nil {
		return fmt.Errorf("clean up after an earlier daemon: %w", err)
	}
	last, err := readStarted(dir.path)
	if err != nil {
		return err
	}
	hasCVMs, err := hasBootedCVMs(dir.path)
	if err != nil {
		return fmt.Errorf("look for CVMs of an earlier start: %w", err)
	}
	if cfg.Domain, err = domain(cfg.Domain, last.Domain, hasCVMs); err != nil {
		return err
	}
	if err := cloud.CheckHosts(dir.path, hostNames(cfg.Hosts)); err != nil {
		return err
	}
	sim, err := attestsim.OpenCloud(filepath.Join(dir.path, "attest"))
	if err != nil {
		return fmt.Errorf("open simulated platform: %w", err)
	}
	file, err := describe(dir, sim, cfg)
	if err != nil {
		return err
	}
	fab, err := fabric.Open(ctx, cfg.Network)
	if err != nil {
		return err
	}
	defer fab.Close()
	listeners, err := listen(ctx, fab, cfg, last, hasCVMs)
	if err != nil {
		return err
	}
	defer listeners.close()
	images, store, err := imagesOf(dir, cfg, listeners)
	if err != nil {
		return err
	}
	if store != nil {
		defer store.Close()
	}
	pccs := sim.NewPCCS(time.Now)
	hv, err := machine.New(machine.Config{
		Dir: dir.path, Fabric: fab, Sim: sim, Rating: pccs.Posture, Images: cfg.Images, Store: store, Become: cfg.Become, Program: cfg.Program, Log: cfg.Log,
	})
	if err != nil {
		return err
	}
	now := started{
		API: listeners.apiHost.Addr().String(), Gateway: listeners.gatewayHost.Addr().String(), Registry: last.Registry,
		Domain: cfg.Domain, Flags: cfg.Flags,
	}
	for _, l := range listeners.hosts {
		now.Hosts = append(now.Hosts, startedHost{l.name, l.host.Addr().String()})
	}
	if images != nil {
		now.Registry = listeners.registry.Addr().String()
		file.Registry = now.Registry
	}
	if err := now.write(dir.path); err != nil {
		return err
	}
	file.APIURL = "http://" + now.API + "/api/v1"
	if cfg.Platform == VMM {
		file.describeHosts(listeners.hosts)
	}
	file.LocalURL = "http://" + now.API + "/_local"
	file.PCCSURL = "http://" + now.API
	file.GatewayAddress = now.Gateway

	certificate, err := gateway.Certify(filepath.Join(dir.path, "gateway"), cfg.Domain, time.Now())
	if err != nil {
		return err
	}
	var cl *cloud.Cloud // set before anything is served
	gw := gateway.New(gateway.Config{
		Domain: cfg.Domain, Certificate: &certificate, Log: cfg.Log,
		Resolve: func(id string) []gateway.Backend { return backends(fab, cl.Resolve(id)) },
		Alive:   func(uuid string) bool { _, ok := cl.Machine(uuid); return ok },
	})
	osImages := slices.Sorted(maps.Keys(file.Images))
	cl, err = cloud.Open(cloud.Config{
		Dir: dir.path, Hypervisor: hv, EnvKey: sim.EnvKey, Images: osImages, Hosts: hostNames(cfg.Hosts), Settings: cfg.Settings,
		OnDown: gw.Drop, Log: cfg.Log,
	})
	if err != nil {
		return err
	}
	apiConfig := api.Config{
		Cloud: cl, Key: file.APIKey, Domain: cfg.Domain, Images: osImages,
		EnvKey: sim.EnvKey, SignEnvKey: sim.SignEnvKey, EvidenceFaults: hv.SetFaults,
		SlowRegistry: hv.SetSlow, Registry: func() any { return hv.Road() },
		Gateway:  func() any { return gw.Counters() },
		LogDir:   func(uuid string) string { return filepath.Join(dir.path, "cvms", uuid, "logs") },
		PCCS:     pccs,
		Networks: fab, Log: cfg.Log,
	}
	apiConfig.Faults, apiConfig.Calls = &fault.Injector{}, &fault.Log{}
	var vmm *vmmapi.Server
	if cfg.Platform == VMM {
		vmm = vmmapi.New(vmmapi.Config{
			Cloud: cl, Hosts: hostNames(cfg.Hosts), Token: file.APIKey, Domain: cfg.Domain, Images: osImages, EnvKey: sim.EnvKey, SignEnvKey: sim.SignEnvKey,
			Faults: apiConfig.Faults, Calls: apiConfig.Calls, LogDir: apiConfig.LogDir, Log: cfg.Log,
		})
		apiConfig.Hosts = vmm.Local()
	}
	var meeting *rendezvous.Server
	if cfg.Rendezvous != "" {
		meeting, err = rendezvous.New(rendezvous.Config{
			Program: cfg.Rendezvous, Dir: filepath.Join(dir.path, "rendezvous"), LogFile: filepath.Join(dir.path, "logs", "rendezvous.log"),
			Address: fabric.Address, Start: fab.Start, Log: cfg.Log,
		})
		if err != nil {
			return err
		}
		apiConfig.Rendezvous = meeting
		info := meeting.Info()
		file.RendezvousURL, file.RendezvousCABase64 = info.URL, base64.StdEncoding.EncodeToString([]byte(info.CA))
	}
	if images != nil {
		apiConfig.ContainerImages = func() any { return images.Images() }
	}
	srv := api.New(apiConfig)
	// The gateway outlives the CVMs' stop: their last words go through it.
	serving, endServing := context.WithCancel(context.WithoutCancel(ctx))
	var tasks sync.WaitGroup
	failed := make(chan error, 5+2*len(listeners.hosts))
	run := func(name string, f func() error) {
		tasks.Go(func() {
			if err := f(); err != nil {
				failed <- fmt.Errorf("serve %s: %w", name, err)
			}
		})
	}
	if meeting != nil {
		run("rendezvous", func() error { return meeting.Run(serving) })
	}
	run("gateway in the fabric", func() error { return gw.Serve(serving, listeners.gatewayFabric) })
	run("gateway on the host", func() error { return gw.Serve(serving, listeners.gatewayHost) })
	run("api in the fabric", func() error { return serveHTTP(serving, listeners.apiFabric, srv.Public()) })
	if images != nil {
		run("images", func() error { return serveHTTP(serving, listeners.registry, images) })
	}
	for _, l := range listeners.hosts {
		h := vmm.Host(l.name)
		run("endpoint of "+l.name, func() error { return serveHTTP(serving, l.host, h) })
		run("endpoint of "+l.name+" in the fabric", func() error { return serveHTTP(serving, l.fabric, h) })
	}
	run("api on the host", func() error { return serveHTTP(serving, listeners.apiHost, srv.Host()) })
	defer func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.StopGrace)
		defer cancel()
		_ = os.Remove(cloudFilePath(dir.path))
		cl.Close(stop)
		endServing()
		tasks.Wait()
	}()
	if err := file.write(); err != nil {
		return err
	}
	cfg.Log.Info("local cloud ready", "api", file.APIURL, "gateway", file.GatewayAddress, "domain", cfg.Domain, "state", dir.path)
	if ready != nil {
		ready(file)
	}
	select {
	case <-ctx.Done():
		cfg.Log.Info("local cloud stops")
		return nil
	case err := <-failed:
		return err
	}
}

// describe fills the fields that do not depend on listeners.
func describe(dir *stateDir, sim *attestsim.Cloud, cfg Config) (CloudFile, error) {
	key, err := dir.apiKey()
	if err != nil {
		return CloudFile{}, err
	}
	root := filepath.Join(dir.path, "attestation-root.pem")
	if err := os.WriteFile(root, sim.RootPEM(), 0o644); err != nil { //nolint:gosec // a certificate is public
		return CloudFile{}, fmt.Errorf("write attestation root: %w", err)
	}
	inCVM := netip.AddrPortFrom(fabric.Address, gatewayPort)
	images, digests := sim.Images(), map[string]string{}
	for name := range images {
		digests[name] = attestsim.ImageDigest(name)
	}
	return CloudFile{
		APIURLInCVM: "http://" + fabric.Address.String() + "/api/v1", APIKey: key,
		PCCSURLInCVM:  "http://" + fabric.Address.String(),
		GatewayDomain: cfg.Domain, GatewayAddressInCVM: inCVM.String(), GatewayCAFile: gateway.CAFile(filepath.Join(dir.path, "gateway")),
		RootPEMFile: root, RootPEM: string(sim.RootPEM()), KeyProvider: KeyProvider{Name: "kms", ID: sim.KeyProviderID()},
		Platform: cmp.Or(cfg.Platform, Phala), Images: images, ImageDigests: digests, StateDir: dir.path, PID: os.Getpid(),
	}, nil
}

type listenerSet struct {
	apiHost, apiFabric, gatewayHost, gatewayFabric net.Listener
	// registry is nil where no images are served.
	registry net.Listener
	hosts    []hostListeners
}

func (l *listenerSet) close() {
	for _, x := range []net.Listener{l.apiHost, l.apiFabric, l.gatewayHost, l.gatewayFabric, l.registry} {
		if x != nil {
			_ = x.Close()
		}
	}
	for _, h := range l.hosts {
		for _, x := range []net.Listener{h.host, h.fabric} {
			if x != nil {
				_ = x.Close()
			}
		}
	}
}

// maxDomain leaves room for the longest name below it.
const maxDomain = 180

var domainForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$`)

// domain is the base domain of gateway names. CVMs and contexts have the domain of the last start.
func domain(want, had string, hasCVMs bool) (string, error) {
	switch {
	case want != "" && (len(want) > maxDomain || !domainForm.MatchString(want)):
		return "", fmt.Errorf("--domain %.300q is no domain name in small letters, such as %s", want, defaultDomain)
	case want == "" && had == "":
		return defaultDomain, nil
	case want == "", want == had:
		return had, nil
	case hasCVMs && had != "":
		return "", fmt.Errorf("--domain %s: this cloud's CVMs and contexts have %s; leave the flag out, or start another cloud with a --state of its own", want, had)
	}
	return want, nil
}

func listen(ctx context.Context, fab *fabric.Fabric, cfg Config, last started, hasCVMs bool) (*listenerSet, error) {
	l := &listenerSet{}
	var errs [6]error
	apiHost := hostAddress{name: "API", flag: "api", want: cmp.Or(cfg.APIListen, anyPort), had: last.API, hasCVMs: hasCVMs}
	gatewayHost := hostAddress{name: "gateway", flag: "gateway", want: cmp.Or(cfg.GatewayListen, anyPort), had: last.Gateway, hasCVMs: hasCVMs}
	l.apiHost, errs[0] = apiHost.listen(ctx)
	l.gatewayHost, errs[1] = gatewayHost.listen(ctx)
	l.apiFabric, errs[2] = fab.Listen(ctx, apiPort)
	l.gatewayFabric, errs[3] = fab.Listen(ctx, gatewayPort)
	if cfg.Layout != "" {
		images := hostAddress{name: "registry", flag: "registry", want: cmp.Or(cfg.RegistryListen, anyPort), had: last.Registry, hasCVMs: hasCVMs}
		l.registry, errs[4] = images.listen(ctx)
	}
	l.hosts, errs[5] = listenHosts(ctx, fab, cfg, last, hasCVMs)
	if err := errors.Join(errs[:]...); err != nil {
		l.close()
		return nil, fmt.Errorf("open listeners: %w", err)
	}
	return l, nil
}

// imagesOf makes the registry of the layout and the store that pulls from it; nil without
// a layout.
func imagesOf(dir *stateDir, cfg Config, l *listenerSet) (*registry.Registry, *imagestore.Store, error) {
	if cfg.Layout == "" {
		return nil, nil, nil
	}
	store, err := imagestore.Open(imagestore.Config{
		Dir: cmp.Or(cfg.ImageStore, filepath.Join(dir.path, "images")), Registry: l.registry.Addr().String(), Transport: cfg.Pulls, Log: cfg.Log,
	})
	return registry.New(cfg.Layout, cfg.Log), store, err
}

func backends(fab *fabric.Fabric, targets []cloud.Target) []gateway.Backend {
	out := make([]gateway.Backend, 0, len(targets))
	for _, t := range targets {
		out = append(out, gateway.Backend{UUID: t.UUID, Dial: func(ctx context.Context, port uint16) (net.Conn, error) {
			return fab.Dial(ctx, netip.AddrPortFrom(t.Machine.Addr(), port))
		}})
	}
	return out
}

func serveHTTP(ctx context.Context, l net.Listener, h http.Handler) error {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
