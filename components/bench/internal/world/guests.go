package world

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cadre.dev/attest/attestsim"
)

// Machines are the guest agents of the coordinators' CVMs and the service with the
// collateral of all machines. They are not part of the coordinators' process, as they
// are not in a CVM.
type Machines struct {
	// Sockets of the guest agents, by coordinator.
	Sockets []string
	// PCCS is the service's URL.
	PCCS string

	// latency of one quote, in nanoseconds.
	latency atomic.Int64
	quotes  atomic.Int64
	servers []*http.Server
	served  sync.WaitGroup
}

// StartMachines serves them, with sockets in dir. The caller must Stop them.
func StartMachines(ctx context.Context, cloud *attestsim.Cloud, dir string, coordinators int) (*Machines, error) {
	m := &Machines{}
	pccs, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	m.PCCS = "http://" + pccs.Addr().String()
	m.serve(pccs, cloud.NewPCCS(time.Now))
	for n := range coordinators {
		guest, err := cloud.Boot(attestsim.BootConfig{
			AppID: CoordinatorApp, AppCompose: AppCompose("coordinator"), InstanceIDSeed: fmt.Appendf(nil, "coordinator disk %03d", n), OSImage: OSImage,
		})
		if err != nil {
			return nil, errors.Join(err, m.Stop())
		}
		socket := filepath.Join(dir, fmt.Sprintf("guest-%d", n))
		listener, err := new(net.ListenConfig).Listen(ctx, "unix", socket)
		if err != nil {
			return nil, errors.Join(err, m.Stop())
		}
		m.Sockets = append(m.Sockets, socket)
		m.serve(listener, m.slow(guest.Handler()))
	}
	return m, nil
}

// SetLatency sets the duration of a quote. Each machine makes one at a time.
func (m *Machines) SetLatency(d time.Duration) { m.latency.Store(int64(d)) }

// Quotes is how many quotes the coordinators' machines made since the last call.
func (m *Machines) Quotes() int { return int(m.quotes.Swap(0)) }

func (m *Machines) slow(inner http.Handler) http.Handler {
	var one sync.Mutex
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/GetQuote") {
			one.Lock()
			defer one.Unlock()
			m.quotes.Add(1)
			time.Sleep(time.Duration(m.latency.Load()))
		}
		inner.ServeHTTP(w, r)
	})
}

func (m *Machines) serve(listener net.Listener, handler http.Handler) {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	m.servers = append(m.servers, server)
	m.served.Go(func() { _ = server.Serve(listener) })
}

// Stop ends all of them.
func (m *Machines) Stop() error {
	var errs []error
	for _, server := range m.servers {
		errs = append(errs, server.Close())
	}
	m.served.Wait()
	return errors.Join(errs...)
}
