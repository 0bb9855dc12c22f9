package punch

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"
)

// labDelay is one way between any two sites.
const labDelay = 20 * time.Millisecond

var tries = flag.Int("punch.tries", 10, "how often to cross each pair of translators")

// crossing is the result of one try: the controlling side's view first.
type crossing struct{ a, b report }

// way says how to cross.
type way struct {
	// late is how much later the controlling side begins.
	late time.Duration
	// notified: the controlling side knows that the other has begun.
	notified bool
	// hosts offers the addresses of interfaces too.
	hosts bool
}

// cross gathers, exchanges and connects once.
func cross(a, b *peer, reflector string, w way) (crossing, error) {
	g := order{Do: "gather", Reflectors: []string{reflector}, Hosts: w.hosts}
	var ga, gb report
	together(func() { ga = a.do(g) }, func() { gb = b.do(g) })
	if ga.Err+gb.Err != "" {
		return crossing{}, fmt.Errorf("gather: %s %s", ga.Err, gb.Err)
	}
	oneWay := ga.OneWay + gb.OneWay
	if w.notified {
		oneWay = 0
	}
	var c crossing
	together(
		func() {
			<-time.After(w.late)
			c.a = a.do(order{Do: "connect", Remote: gb.Candidates, Controlling: true, OneWay: oneWay})
		},
		func() {
			<-time.After(-w.late)
			c.b = b.do(order{Do: "connect", Remote: ga.Candidates, OneWay: oneWay})
		},
	)
	if c.a.Err+c.b.Err != "" {
		return c, fmt.Errorf("connect: %s %s", c.a.Err, c.b.Err)
	}
	var pa, pb report
	together(func() { pa = a.do(order{Do: "ping", Controlling: true}) }, func() { pb = b.do(order{Do: "ping"}) })
	if pa.Err+pb.Err != "" {
		return c, fmt.Errorf("not the same connection: %s %s", pa.Err, pb.Err)
	}
	c.a.Info, c.b.Info = pa.Info, pb.Info
	return c, nil
}

func together(f, g func()) {
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	g()
	<-done
}

// many crosses as often as the flag says, prints the results, and requires 99 of 100 to
// work.
func many(t *testing.T, l *lab, a, b *peer, reflector string, w way) {
	t.Helper()
	var took, minA, minB []time.Duration
	how := make(map[string]int)
	for range *tries {
		c, err := cross(a, b, reflector, w)
		if err != nil {
			t.Logf("%v", err)
			continue
		}
		took = append(took, max(c.a.Took+max(w.late, 0), c.b.Took+max(-w.late, 0)))
		minA, minB = append(minA, c.a.Info.MinRTT), append(minB, c.b.Info.MinRTT)
		how[fmt.Sprintf("%s/%s %s/%s", c.a.Kind, c.b.Kind, c.a.How, c.b.How)]++
	}
	if len(took)*100 < *tries*99 {
		t.Fatalf("%d of %d", len(took), *tries)
	}
	const digit = time.Millisecond / 10
	t.Logf("%d of %d; both connected after %v (worst %v), %.1f round trips; least round trips %v (worst %v), %v (worst %v); %v",
		len(took), *tries, median(took).Round(digit), slices.Max(took).Round(digit),
		float64(median(took))/float64(2*l.delay), median(minA).Round(digit), slices.Min(minA).Round(digit),
		median(minB).Round(digit), slices.Min(minB).Round(digit), how)
}

func median(d []time.Duration) time.Duration {
	d = slices.Sorted(slices.Values(d))
	return d[len(d)/2]
}

func TestThroughTranslators(t *testing.T) {
	const near = time.Millisecond / 2
	for _, c := range []struct {
		a, b  nat
		delay time.Duration
		way   way
	}{
		{drops, drops, labDelay, way{}},
		{drops, drops, labDelay, way{late: 2 * labDelay, notified: true}},
		{drops, drops, labDelay, way{late: -2 * labDelay}},
		{drops, drops, near, way{}},
		{rejects, rejects, labDelay, way{}},
		{rejects, rejects, labDelay, way{late: 2 * labDelay, notified: true}},
		{rejects, rejects, labDelay, way{late: -10 * labDelay}},
		{rejects, rejects, near, way{}},
		{kernelRST, kernelRST, labDelay, way{}},
		{kernelRST, kernelRST, labDelay, way{late: 10 * labDelay}},
		{drops, rejects, labDelay, way{}},
		{rejects, drops, labDelay, way{}},
		{public, drops, labDelay, way{}},
		{drops, public, labDelay, way{}},
		{rejects, public, labDelay, way{}},
		{public, symmetric, labDelay, way{}},
		{symmetric, public, labDelay, way{}},
		{public, public, labDelay, way{}},
	} {
		t.Run(fmt.Sprintf("%s,%s,%v,late %v", c.a, c.b, c.delay, c.way.late), func(t *testing.T) {
			t.Parallel()
			l := newLab(t, c.delay)
			r := l.site(public).reflector()
			many(t, l, l.site(c.a).peer(), l.site(c.b).peer(), r, c.way)
		})
	}
}

// Some pairs of translators cannot be crossed: two that choose a new port for each
// destination, or one of them with a translator that accepts only the exact address.
func TestSymmetricTranslatorsFailInBoundedTime(t *testing.T) {
	for _, kind := range []nat{symmetric, drops, rejects} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			l := newLab(t, labDelay)
			r := l.site(public).reflector()
			c, err := cross(l.site(symmetric).peer(), l.site(kind).peer(), r, way{})
			if err == nil || !c.a.NoPath || !c.b.NoPath {
				t.Fatalf("got %v; %+v, %+v", err, c.a, c.b)
			}
			t.Logf("after %v and %v", c.a.Took, c.b.Took)
		})
	}
}

// Hosts behind the same translator, which does not lead back in, meet over its
// inner side.
func TestBehindTheSameTranslator(t *testing.T) {
	l := newLab(t, labDelay)
	r := l.site(public).reflector()
	s := l.site(drops)
	many(t, l, s.peer(), s.peer(), r, way{hosts: true})
}

// Host candidates of another network are not even tried.
func TestHostsOfAnotherNetwork(t *testing.T) {
	l := newLab(t, labDelay)
	r := l.site(public).reflector()
	many(t, l, l.site(drops).peer(), l.site(drops).peer(), r, way{hosts: true})
}
