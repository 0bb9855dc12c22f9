package paths

import "time"

// ID names a path of a Link; 0 is none. IDs are not used twice.
type ID uint32

// Kind is the way of a path to the Peer. The zero Kind is not a path's.
type Kind string

const (
	// Direct goes straight to an address of the Peer's.
	Direct Kind = "direct"
	// Relay goes through a relay's allocation.
	Relay Kind = "relay"
)

// PathState is the state of a path. The zero PathState is not a path's.
type PathState string

const (
	// Probing has never been answered.
	Probing PathState = "probing"
	// Up has been answered and not gone quiet since.
	Up PathState = "up"
	// Quiet was up and has stopped answering.
	Quiet PathState = "quiet"
)

const (
	// fast is the time between probes of a path that matters now: a path in use with
	// traffic, a suspected path, or a path that may have to take over.
	fast = 100 * time.Millisecond
	// slow is between the probes of every other path that is up. It also keeps
	// the mapping of an address-translating gateway alive.
	slow = 2 * time.Second
	// activeFor is how long a path counts as carrying traffic.
	activeFor = time.Second
	// sample is between two looks at a path's traffic while there is some.
	sample = 50 * time.Millisecond
	// urgentGap is the least time between two probes of one path.
	urgentGap = 20 * time.Millisecond
	// consent is how long a path lives without an answer.
	consent = 30 * time.Second

	// silence and silenceRaced are the shortest time after which a silent path is
	// called quiet: without, and with another path that answered meanwhile.
	silence      = 400 * time.Millisecond
	silenceRaced = 200 * time.Millisecond
	// oneWay is the shortest time without an answer to our own probes after which a path
	// counts as quiet although datagrams still arrive over it. These datagrams may be
	// spoofed, or only one direction may be dead.
	oneWay       = 800 * time.Millisecond
	oneWayProbes = 6

	// ringSize is the number of recent probes per path for which an answer is recognised.
	ringSize = 32
	// lossGain is the weight of one probe in the loss estimate.
	lossGain = 1.0 / 16
)

// sent is one probe.
type sent struct {
	seq      uint64
	at       time.Duration
	answered bool
	counted  bool // its loss is part of the estimate
}

type path struct {
	id     ID
	search string
	kind   Kind
	added  time.Duration

	state    PathState
	accepted bool          // the shell has been asked to accept datagrams from the path
	since    time.Duration // of the state
	flaps    int           // times it went quiet

	probes   [ringSize]sent
	count    uint64        // probes sent, ever
	lastSent time.Duration // of the newest probe; meaningless while count is 0
	lastEcho time.Duration
	// unanswered is the number of probes sent after the newest answered one, and
	// first when the oldest of those went out.
	unanswered int
	first      time.Duration
	urgent     bool

	// waiting is when something was first sent that no sign of life followed.
	waiting     time.Duration
	isWaiting   bool
	probesSince int // probes sent while waiting
	lastHeard   time.Duration
	lastTraffic time.Duration
	traffic     bool // there has been some

	srtt, variance time.Duration
	// base and older are the least round trips of the present and the previous
	// baseFor, so that a queue of our own making does not look like a longer way.
	base, older time.Duration
	baseSince   time.Duration
	loss        float64
	peerUses    bool
	// betterSince is the time since which this path is clearly better than the path in
	// use; meaningful while better.
	betterSince time.Duration
	better      bool
}

const baseFor = 15 * time.Second

// roundTrip is the time within which a probe's answer may reasonably arrive.
func (p *path) roundTrip() time.Duration { return p.srtt + 3*p.variance }

func (p *path) active(now time.Duration) bool {
	return p.traffic && now-p.lastTraffic < activeFor
}

// suspect reports whether an answer is overdue.
func (p *path) suspect(now time.Duration) bool {
	return p.state == Up && p.unanswered > 0 && now-p.first > max(fast, p.srtt+4*p.variance)
}

// rtt is the figure that paths are compared by.
func (p *path) rtt() time.Duration {
	if p.older != 0 && (p.base == 0 || p.older < p.base) {
		return p.older
	}
	return p.base
}

// measure takes one round trip.
func (p *path) measure(now, rtt time.Duration) {
	rtt = max(rtt, 1)
	if p.srtt == 0 {
		p.srtt, p.variance = rtt, rtt/2
	} else {
		off := max(rtt-p.srtt, p.srtt-rtt)
		p.variance += (off - p.variance) / 4
		p.srtt += (rtt - p.srtt) / 8
	}
	if now-p.baseSince > baseFor {
		p.older, p.base, p.baseSince = p.base, 0, now
	}
	if p.base == 0 || rtt < p.base {
		p.base = rtt
	}
}

// alive takes any sign of life.
func (p *path) alive(now time.Duration) {
	p.lastHeard = now
	p.isWaiting, p.probesSince = false, 0
}

// wait notes that something was sent.
func (p *path) wait(now time.Duration) {
	if !p.isWaiting {
		p.isWaiting, p.waiting, p.probesSince = true, now, 0
	}
}

// recount brings unanswered and first up to date, and counts losses.
func (p *path) recount(now time.Duration) {
	p.unanswered = 0
	overdue := p.roundTrip() + 2*fast
	for i := uint64(0); i < min(p.count, ringSize); i++ {
		s := &p.probes[(p.count-1-i)%ringSize]
		if s.answered {
			break
		}
		p.unanswered++
		p.first = s.at
	}
	for i := range min(p.count, ringSize) {
		s := &p.probes[i]
		if !s.answered && !s.counted && now-s.at > overdue {
			s.counted = true
			p.loss += (1 - p.loss) * lossGain
		}
	}
}

// interval is the time between two probes.
func (p *path) interval(now time.Duration, inUse, racing bool) time.Duration {
	switch p.state {
	case Probing:
		switch age := now - p.added; {
		case age < time.Second:
			return fast / 2
		case age < 5*time.Second:
			return 250 * time.Millisecond
		}
	case Quiet:
		if now-p.since < 10*time.Second {
			return 2 * fast
		}
		return time.Second
	case Up:
		if racing || p.suspect(now) || inUse && p.active(now) {
			return fast
		}
	}
	return slow
}

// due is when the next probe should go out.
func (p *path) due(now time.Duration, inUse, racing bool) time.Duration {
	if p.count == 0 {
		return p.added
	}
	if p.urgent {
		return p.lastSent + urgentGap
	}
	return p.lastSent + p.interval(now, inUse, racing)
}
