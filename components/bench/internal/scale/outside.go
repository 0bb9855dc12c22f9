package scale

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"cadre.dev/attest/attestsim"
	"cadre.dev/bench/internal/gateway"
	"cadre.dev/bench/internal/world"
	"cadre.dev/lab/worker"
)

// outsideName is the role of the coordinators' environment.
const outsideName = "outside"

// outsideConfig of it.
type outsideConfig struct {
	// Cloud is the folder of the simulated hardware, Sockets where the coordinators' guest
	// agents listen.
	Cloud   string
	Sockets []string
	Routes  map[string][]string
	// Gateway and PCCS are addresses to listen on.
	Gateway, PCCS string
}

// disk is the seed of a coordinator's, by which the platform names its instance.
func disk(n int) []byte { return fmt.Appendf(nil, "coordinator disk %03d", n) }

func outside(ctx context.Context, raw json.RawMessage) (worker.Actor, error) {
	var cfg outsideConfig
	if err := json.Unmarshal(raw, &cfg); err != nil {
		return worker.Actor{}, fmt.Errorf("read config: %w", err)
	}
	hardware, err := attestsim.OpenCloud(cfg.Cloud)
	if err != nil {
		return worker.Actor{}, err
	}
	var (
		servers []*http.Server
		served  sync.WaitGroup
		front   *gateway.Gateway
	)
	closeAll := func() {
		for _, s := range servers {
			_ = s.Close()
		}
		served.Wait()
		if front != nil {
			front.Close()
		}
	}
	serve := func(network, address string, handler http.Handler) error {
		listener, err := new(net.ListenConfig).Listen(ctx, network, address)
		if err != nil {
			return err
		}
		server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
		servers = append(servers, server)
		served.Go(func() { _ = server.Serve(listener) })
		return nil
	}
	err = serve("tcp", cfg.PCCS, hardware.NewPCCS(time.Now))
	for n, socket := range cfg.Sockets {
		guest, failed := bootCoordinator(hardware, filepath.Dir(socket), n)
		if failed != nil {
			err = errors.Join(err, failed)
			break
		}
		err = errors.Join(err, serve("unix", socket, guest.Handler()))
	}
	listener, failed := new(net.ListenConfig).Listen(ctx, "tcp", cfg.Gateway)
	if err = errors.Join(err, failed); err != nil {
		closeAll()
		return worker.Actor{}, err
	}
	front = gateway.New(listener) //nolint:contextcheck // Close ends all connections
	for name, addresses := range cfg.Routes {
		front.Route(name, addresses...)
	}
	return worker.Actor{Close: closeAll, Methods: map[string]worker.Method{}}, nil
}

// bootCoordinator starts the simulated CVM of coordinator n, which measures the trust file
// in dir.
func bootCoordinator(hardware *attestsim.Cloud, dir string, n int) (*attestsim.Guest, error) {
	compose, err := measured(dir)
	if err != nil {
		return nil, err
	}
	return hardware.Boot(attestsim.BootConfig{AppID: world.CoordinatorApp, AppCompose: compose, InstanceIDSeed: disk(n), OSImage: world.OSImage})
}
