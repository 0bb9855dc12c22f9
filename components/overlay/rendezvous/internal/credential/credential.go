// Package credential mints and checks the TURN credentials of members: bound to one Boot,
// valid for minutes, made from a secret that never leaves the process and changes while
// it runs (OVL-12).
package credential

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/rendezvous/internal/member"
)

// MaxLife is how long a credential may be good at most.
const MaxLife = 10 * time.Minute

// maxUsername bounds a STUN username, in bytes.
const maxUsername = 512

// ErrExpired reports a credential that is not good (any more): of another
// server, of an ended Boot, or past its time (TURN_CRED_EXPIRED).
var ErrExpired = errors.New("relay credential is invalid (TURN_CRED_EXPIRED)")

// Credential is a member's credential for STUN and TURN.
type Credential struct {
	Username, Password string
	Expires            time.Time
}

// Mint makes and checks credentials. Safe for concurrent use.
type Mint struct {
	life    time.Duration
	revoked func(member.Member) bool

	mu      sync.Mutex
	number  uint64   // of the newest secret
	secrets [][]byte // newest last; two, so that a rotation ends no credential
	turned  time.Time
	latest  map[member.Member]lease
}

// lease is the newest credential of a member, and where it was sent.
type lease struct {
	expires time.Time
	to      netip.Addr
}

// New makes a mint. life is how long credentials are good, at most MaxLife;
// revoked says which members have ended.
func New(life time.Duration, revoked func(member.Member) bool, now time.Time) *Mint {
	m := &Mint{life: min(life, MaxLife), revoked: revoked, latest: map[member.Member]lease{}}
	m.Rotate(now)
	return m
}

// Life is how long a credential is good.
func (m *Mint) Life() time.Duration { return m.life }

// Rotate makes a new secret once the last is as old as a credential may get.
// Credentials made from the last stay good; older ones have expired.
func (m *Mint) Rotate(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for who, l := range m.latest {
		if now.After(l.expires) {
			delete(m.latest, who)
		}
	}
	if len(m.secrets) > 0 && now.Sub(m.turned) < m.life {
		return
	}
	secret := make([]byte, sha256.Size)
	_, _ = rand.Read(secret) // never fails
	m.secrets = append(m.secrets[max(0, len(m.secrets)-1):], secret)
	m.number++
	m.turned = now
}

// Issue mints a credential for a member that is connected from the address to. It is
// valid until the member's certificate expires, and not longer than the mint's life.
func (m *Mint) Issue(who member.Member, to netip.Addr, certificateEnds, now time.Time) Credential {
	expires := now.Add(m.life)
	if certificateEnds.Before(expires) {
		expires = certificateEnds
	}
	expires = expires.Truncate(time.Second)
	m.mu.Lock()
	defer m.mu.Unlock()
	name := fmt.Sprintf("%d:%s/%s/%s:%s:%d", expires.Unix(), who.ID.Cluster, who.ID.Group, who.ID.Slot, who.Boot, m.number)
	m.latest[who] = lease{expires: expires, to: to}
	return Credential{Username: name, Password: password(m.secrets[len(m.secrets)-1], name), Expires: expires}
}

// Check gives the owner and the password of a username that this mint made and
// that is good now. The caller must still check that the far side knows the
// password.
func (m *Mint) Check(username string, now time.Time) (who member.Member, secret string, expires time.Time, err error) {
	who, expires, number, err := parse(username)
	if err != nil {
		return member.Member{}, "", time.Time{}, err
	}
	if !now.Before(expires) || expires.Sub(now) > m.life+time.Second {
		return member.Member{}, "", time.Time{}, fmt.Errorf("%w: expired at %s", ErrExpired, expires.UTC().Format(time.RFC3339))
	}
	if m.revoked(who) {
		return member.Member{}, "", time.Time{}, fmt.Errorf("%w: boot %.12s of %s has ended", ErrExpired, who.Boot, who.ID)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	back := m.number - number
	if number > m.number || back >= uint64(len(m.secrets)) {
		return member.Member{}, "", time.Time{}, fmt.Errorf("%w: made from a secret that is gone", ErrExpired)
	}
	return who, password(m.secrets[uint64(len(m.secrets))-1-back], username), expires, nil
}

// Until returns the end of an allocation that a member made from the address at with a
// credential that is valid until expires. A newer credential extends the end, since the
// member has shown its certificate for it. The extension holds only for the address that
// the newer credential was sent to. A thief that uses a credential elsewhere loses the
// allocation with it. The zero time means: now.
func (m *Mint) Until(who member.Member, at netip.Addr, expires time.Time) time.Time {
	if m.revoked(who) {
		return time.Time{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if l, ok := m.latest[who]; ok && l.to == at && l.expires.After(expires) {
		return l.expires
	}
	return expires
}

func password(secret []byte, username string) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(username))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func parse(username string) (who member.Member, expires time.Time, number uint64, err error) {
	if len(username) > maxUsername {
		return who, expires, 0, fmt.Errorf("%w: username of %d bytes", ErrExpired, len(username))
	}
	parts := strings.Split(username, ":")
	if len(parts) != 4 {
		return who, expires, 0, fmt.Errorf("%w: not a username of this kind", ErrExpired)
	}
	at, err1 := strconv.ParseInt(parts[0], 10, 64)
	number, err2 := strconv.ParseUint(parts[3], 10, 64)
	id, err3 := identity.ParseID("spiffe://" + parts[1])
	if err := errors.Join(err1, err2, err3); err != nil {
		return who, expires, 0, fmt.Errorf("%w: %w", ErrExpired, err)
	}
	return member.Member{ID: id, Boot: parts[2]}, time.Unix(at, 0), number, nil
}
