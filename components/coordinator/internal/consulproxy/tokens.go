package consulproxy

import (
	"container/list"
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Tokens returns the owner of a token.
type Tokens interface {
	// Owner returns the Slot that the token was issued for; "": the token is unknown or belongs to
	// no Slot. An error means that the lookup failed.
	Owner(ctx context.Context, secret string) (slot string, err error)
}

// Bounds of the token cache. The owner of a token never changes, and Consul checks the token's
// rights at each request, so a known token is cached for its life. An unknown token is cached only
// briefly, because this server may not have applied its log yet.
const (
	knownFor   = 15 * time.Minute
	unknownFor = 2 * time.Second
	maxKnown   = 65536
	// maxToken bounds a token; Consul's are UUIDs.
	maxToken = 128
)

// owners caches the owners of tokens, by the tokens' digests. Safe for concurrent use.
type owners struct {
	tokens Tokens
	now    func() time.Time

	mu     sync.Mutex
	known  map[digest]*list.Element // guarded by mu; of recent
	recent *list.List               // guarded by mu; of *owned, last used first
	most   int
}

type digest [sha256.Size]byte

type owned struct {
	token digest
	slot  string
	until time.Time
}

func newOwners(tokens Tokens, now func() time.Time) *owners {
	return &owners{tokens: tokens, now: now, known: map[digest]*list.Element{}, recent: list.New(), most: maxKnown}
}

// of returns the Slot of a token, or "" if it belongs to none.
func (o *owners) of(ctx context.Context, secret string) (string, error) {
	token := digest(sha256.Sum256([]byte(secret)))
	if slot, ok := o.recall(token); ok {
		return slot, nil
	}
	slot, err := o.tokens.Owner(ctx, secret)
	if err != nil {
		return "", err
	}
	o.note(token, slot)
	return slot, nil
}

func (o *owners) recall(token digest) (string, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	at, ok := o.known[token]
	if !ok {
		return "", false
	}
	one := at.Value.(*owned)
	if o.now().After(one.until) {
		o.recent.Remove(at)
		delete(o.known, token)
		return "", false
	}
	o.recent.MoveToFront(at)
	return one.slot, true
}

func (o *owners) note(token digest, slot string) {
	life := knownFor
	if slot == "" {
		life = unknownFor
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if at, ok := o.known[token]; ok {
		o.recent.Remove(at)
	}
	o.known[token] = o.recent.PushFront(&owned{token, slot, o.now().Add(life)})
	for o.recent.Len() > o.most {
		oldest := o.recent.Back()
		o.recent.Remove(oldest)
		delete(o.known, oldest.Value.(*owned).token)
	}
}

var errSeveralTokens = errors.New("the request has several tokens; send one, as X-Consul-Token")

// tokenOf returns the only token of a request, from its header or parameter; "" if there is none.
func tokenOf(header http.Header, parameter string) (string, error) {
	found := append([]string{parameter}, header.Values("X-Consul-Token")...)
	for _, value := range header.Values("Authorization") {
		scheme, token, _ := strings.Cut(value, " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return "", errors.New("the request has an Authorization header without a Bearer token")
		}
		found = append(found, strings.TrimSpace(token))
	}
	out := ""
	for _, token := range found {
		switch {
		case token == "" || token == out:
		case out != "":
			return "", errSeveralTokens
		case len(token) > maxToken:
			return "", errors.New("the token is too long")
		default:
			out = token
		}
	}
	return out, nil
}
