package natlab

import (
	"fmt"
	"net/netip"
	"time"

	"cadre.dev/lab/internal/slowlink"
	"cadre.dev/lab/netspace"
)

// Link is the quality of a host's link, each direction alike. The zero value is
// as fast and good as the kernel can.
type Link struct {
	// Delay is one way; Jitter moves it by up to as much either way, in order.
	Delay  time.Duration
	Jitter time.Duration
	// RateMbps is in 10^6 bits per second, 0 unlimited. QueueBytes is the length of the
	// queue in front of the rate; packets beyond it are dropped. QueueBytes 0 means the
	// bytes of 20 ms or of four delays, whichever is longer, but at least 64 KiB.
	RateMbps   int
	QueueBytes int
	// Loss and Reorder are fractions of packets, 0 to 1, in each direction: lost at
	// random; held back by a millisecond or more so that later ones pass.
	Loss    float64
	Reorder float64
	// MTU, when not 0, is that of the way from the box to the internet, which
	// answers too large packets as routers do; for a public host it is its interface's.
	MTU int
}

// Validate returns the first error of the link's values.
func (k Link) Validate() error {
	switch {
	case k.Delay < 0 || k.Jitter < 0:
		return fmt.Errorf("link: delay %v and jitter %v must not be negative", k.Delay, k.Jitter)
	case k.RateMbps < 0 || k.QueueBytes < 0:
		return fmt.Errorf("link: rate %d and queue %d must not be negative", k.RateMbps, k.QueueBytes)
	case k.Loss < 0 || k.Loss > 1 || k.Reorder < 0 || k.Reorder > 1:
		return fmt.Errorf("link: loss %v and reorder %v must be 0 to 1", k.Loss, k.Reorder)
	case k.MTU != 0 && (k.MTU < 576 || k.MTU > 65535):
		return fmt.Errorf("link: mtu %d must be 576 to 65535, or 0", k.MTU)
	}
	return nil
}

// params are the values that need the emulator; the zero value needs none.
func (k Link) params() slowlink.Params {
	return slowlink.Params{
		Delay: k.Delay, Jitter: k.Jitter, RateMbps: k.RateMbps, QueueBytes: k.QueueBytes, Loss: k.Loss, Reorder: k.Reorder,
	}
}

func (h *Host) emulated() bool { return h.link.params() != slowlink.Params{} }

// Counts are a host's emulated link's, since it became one; CPU is that of all
// emulated links of the Lab.
type Counts struct {
	Out, In slowlink.LineStats
	CPU     time.Duration
}

// SetLink changes the quality of a host's link. Connections live on, unless the
// new quality ends them; packets underway are lost when the link becomes emulated
// or plain. The MTU cannot change.
func (l *Lab) SetLink(host string, k Link) error {
	if err := k.Validate(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	h, err := l.find(host)
	if err != nil {
		return err
	}
	if k.MTU != h.link.MTU {
		return fmt.Errorf("set link of %s: the mtu stays %d", host, h.link.MTU)
	}
	was := h.emulated()
	h.link = k
	switch is := h.emulated(); {
	case was && is:
		return l.slow.Set(h.name, k.params())
	case !was && !is:
		return nil
	}
	if err := l.disconnect(h, was); err != nil {
		return fmt.Errorf("set link of %s: %w", host, err)
	}
	if err := l.connect(h); err != nil {
		return fmt.Errorf("set link of %s: %w", host, err)
	}
	return nil
}

// connect makes the host's cable, as its link says.
func (l *Lab) connect(h *Host) error {
	mtu := 0
	if h.box == nil {
		mtu = h.link.MTU
	}
	if !h.emulated() {
		if err := netspace.Connect(h.near, h.far, mtu); err != nil {
			return err
		}
		return l.route(h)
	}
	if l.slow == nil {
		var err error
		if l.slow, err = slowlink.Start(); err != nil {
			return err
		}
	}
	far, err := netspace.Tun(h.far, mtu)
	if err != nil {
		return err
	}
	near, err := netspace.Tun(h.near, mtu)
	if err != nil {
		closeFD(far)
		return err
	}
	if err := l.slow.Add(h.name, h.link.params(), far, near, l.cfg.Seed+uint64(h.number)<<8); err != nil {
		return err
	}
	return l.route(h)
}

// route adds the routes that a new interface of the host lacks.
func (l *Lab) route(h *Host) error {
	to := everywhere
	if h.direct() {
		to = netip.PrefixFrom(l.cfg.Router, 32)
	}
	if err := h.far.Space.Route(to, h.near.Addr.Addr(), netip.Addr{}); err != nil {
		return err
	}
	if h.hole > 0 {
		return h.applyHole()
	}
	return nil
}

func (l *Lab) disconnect(h *Host, emulated bool) error {
	if emulated {
		return l.slow.Remove(h.name)
	}
	return h.near.Space.Remove(h.near.Name)
}

// Counts reads the counters of a host's emulated link.
func (l *Lab) Counts(host string) (Counts, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, err := l.find(host)
	if err != nil {
		return Counts{}, err
	}
	if !h.emulated() {
		return Counts{}, fmt.Errorf("counts of %s: its link is not emulated", host)
	}
	s, err := l.slow.Stats(h.name)
	return Counts{Out: s.AtoB, In: s.BtoA, CPU: s.CPU}, err
}
