package front

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/mailbox"
	"cadre.dev/overlay/internal/signal"
	"cadre.dev/overlay/rendezvous/internal/member"
	"cadre.dev/overlay/rendezvous/internal/post"
)

// maxWait is how long a poll may take.
const maxWait = 25 * time.Second

// send puts the caller's envelope into the mailbox of the addressed Boot. The front
// checks as much as it can: that the caller signed the envelope, within its own cluster.
// That keeps noise out; the recipient checks everything.
func (f *Front) send(who member.Caller, envelope []byte) *mailbox.Refusal {
	h, err := signal.Peek(envelope)
	switch {
	case err != nil:
		return refusal(mailbox.CodeForged, "not an envelope")
	case h.From != who.ID || h.FromBoot != who.Boot:
		return refusal(mailbox.CodeForged, "an envelope of another sender")
	case h.To.Cluster != who.ID.Cluster:
		return refusal(mailbox.CodeCluster, "a recipient of another cluster")
	}
	to := member.Member{ID: h.To, Boot: h.ToBoot}
	switch err := f.cfg.Mailboxes.Put(to, envelope, f.cfg.Now()); {
	case errors.Is(err, post.ErrUnknown):
		return refusal(mailbox.CodeUnknown, "no such boot is connected here")
	case err != nil:
		return refusal(mailbox.CodeOverloaded, "the mailbox is full")
	}
	f.cfg.Meter.Sent()
	return nil
}

// find names the connected Boots of a Slot of the caller's cluster.
func (f *Front) find(who member.Caller, group, slot string) ([]mailbox.Boot, *mailbox.Refusal) {
	id := identity.ID{Cluster: who.ID.Cluster, Group: group, Slot: slot}
	if err := id.Validate(); err != nil {
		return nil, refusal(mailbox.CodeRequest, "no such name can be")
	}
	var boots []mailbox.Boot
	for _, b := range f.cfg.Mailboxes.Find(id, mailbox.MaxBoots, f.cfg.Now()) {
		boots = append(boots, mailbox.Boot{Boot: b.Boot, Chain: b.Chain})
	}
	if len(boots) == 0 {
		return nil, refusal(mailbox.CodeUnknown, "no boot of that slot is connected here")
	}
	return boots, nil
}

func (f *Front) serveSend(w http.ResponseWriter, r *http.Request, who member.Caller) {
	envelope, err := io.ReadAll(http.MaxBytesReader(w, r.Body, signal.MaxEnvelope))
	if err != nil {
		f.refuse(w, refusal(mailbox.CodeTooLarge, "an envelope is at most "+strconv.Itoa(signal.MaxEnvelope)+" bytes long"))
		return
	}
	if r.PathValue("cluster") != who.ID.Cluster {
		f.refuse(w, refusal(mailbox.CodeCluster, "a recipient of another cluster"))
		return
	}
	h, err := signal.Peek(envelope)
	to := identity.ID{Cluster: r.PathValue("cluster"), Group: r.PathValue("group"), Slot: r.PathValue("slot")}
	if boot := r.PathValue("boot"); err == nil && (h.To != to || (boot != "-" && boot != h.ToBoot)) {
		f.refuse(w, refusal(mailbox.CodeForged, "the envelope names another recipient"))
		return
	}
	if refused := f.send(who, envelope); refused != nil {
		f.refuse(w, refused)
		return
	}
	f.answer(w, http.StatusAccepted, struct{}{})
}

func (f *Front) serveFind(w http.ResponseWriter, r *http.Request, who member.Caller) {
	if r.PathValue("cluster") != who.ID.Cluster {
		f.refuse(w, refusal(mailbox.CodeCluster, "a slot of another cluster"))
		return
	}
	boots, refused := f.find(who, r.PathValue("group"), r.PathValue("slot"))
	if refused != nil {
		f.refuse(w, refused)
		return
	}
	f.answer(w, http.StatusOK, mailbox.Certificates{Boots: boots})
}

// servePoll returns the waiting messages of the caller's own mailbox; ?wait= is the time
// to wait for one, ?ack= names the messages that have arrived before.
func (f *Front) servePoll(w http.ResponseWriter, r *http.Request, who member.Caller) {
	id := identity.ID{Cluster: r.PathValue("cluster"), Group: r.PathValue("group"), Slot: r.PathValue("slot")}
	if boot := r.PathValue("boot"); id != who.ID || (boot != "-" && boot != who.Boot) {
		if f.curious.Allow(f.cfg.Now()) {
			f.log.Warn("poll of another member's mailbox refused", "code", string(mailbox.CodeUnauthenticated), "peer", who.ID.String())
		}
		f.refuse(w, refusal(mailbox.CodeUnauthenticated, "not your mailbox"))
		return
	}
	wait, ack, err := pollQuery(r)
	if err != nil {
		f.refuse(w, refusal(mailbox.CodeRequest, err.Error()))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	messages, err := f.cfg.Mailboxes.Poll(ctx, who.Member, who.Chain, ack, f.cfg.Now)
	if err != nil {
		f.refuse(w, refusal(mailbox.CodeOverloaded, "no room for another mailbox"))
		return
	}
	if f.cfg.Revoked.Has(who.Member) {
		f.refuse(w, refusal(mailbox.CodeRevoked, "this boot has ended"))
		return
	}
	answer := mailbox.Poll{Messages: []mailbox.Waiting{}}
	size := 0
	for _, l := range messages {
		// The rest comes with the next poll.
		if size += 2 * len(l.Envelope); size > mailbox.MaxFrame && len(answer.Messages) > 0 {
			break
		}
		answer.Messages = append(answer.Messages, mailbox.Waiting{ID: l.ID, Envelope: l.Envelope})
	}
	f.answer(w, http.StatusOK, answer)
}

func pollQuery(r *http.Request) (wait time.Duration, ack []uint64, err error) {
	q := r.URL.Query()
	if s := q.Get("wait"); s != "" {
		if wait, err = time.ParseDuration(s); err != nil || wait < 0 {
			return 0, nil, errors.New("wait must be a duration like 20s")
		}
	}
	if s := q.Get("ack"); s != "" {
		for one := range strings.SplitSeq(s, ",") {
			id, err := strconv.ParseUint(one, 10, 64)
			if err != nil || len(ack) >= 128 {
				return 0, nil, errors.New("ack must be a list of at most 128 numbers")
			}
			ack = append(ack, id)
		}
	}
	return min(wait, maxWait), ack, nil
}
