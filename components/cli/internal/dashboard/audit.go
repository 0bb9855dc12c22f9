package dashboard

import (
	"context"
	"slices"
	"strconv"
	"time"

	"cadre.dev/client"
	"cadre.dev/client/format"
	"cadre.dev/core/audit"
)

// maxAudit bounds the entries of the page of the audit chain: a coordinator reads each one from Consul.
const maxAudit = 200

type auditRow struct {
	Number                            string
	At                                time.Time
	Who                               mark
	By, Verb, Object, Reason, Request string
	// The fields Caller and ID have the full texts of By and Request.
	Caller, ID string
}

type auditModel struct {
	Rows  []auditRow
	Pager pager
	// Object is the filter; empty: all entries.
	Object string
	// First and Last are the numbers of the read entries; 0: the chain has none.
	First, Last uint64
	Most        int
}

// readAudit returns the newest entries of the audit chain, at most maxAudit, oldest first.
func readAudit(ctx context.Context, cl *client.Client) ([]audit.Entry, error) {
	signed, err := cl.AuditHead(ctx)
	if err != nil {
		return nil, err
	}
	last := signed.Head.Last.Number
	entries := []audit.Entry{}
	err = cl.Audit(ctx, last-min(last, maxAudit), time.Time{}, func(e audit.Entry) error {
		entries = append(entries, e)
		return nil
	})
	if err != nil {
		return nil, err
	}
	// The chain may have grown since the answer with its end.
	return entries[max(0, len(entries)-maxAudit):], nil
}

// auditOf makes the page of the audit chain, newest entry first. The words of f name an object, as in `cadre audit --object`.
func auditOf(entries []audit.Entry, f filter) auditModel {
	m := auditModel{Object: f.Words, Most: maxAudit}
	if len(entries) > 0 {
		m.First, m.Last = entries[0].Number, entries[len(entries)-1].Number
	}
	var chosen []audit.Entry
	for _, e := range slices.Backward(entries) {
		if e.About(f.Words) {
			chosen = append(chosen, e)
		}
	}
	page, below := paged(chosen, f, auditPath(""))
	m.Pager = below
	for _, e := range page {
		m.Rows = append(m.Rows, auditRow{
			Number: strconv.FormatUint(e.Number, 10), At: e.At, Who: authorMark(e.Who), By: format.ShortCaller(e.By), Caller: e.By,
			Verb: e.Verb, Object: e.Object, Reason: e.Reason, Request: format.ShortRequest(e.Request), ID: e.Request,
		})
	}
	return m
}

// authorMark warns of an edit in Consul KV, which has no named author.
func authorMark(who audit.Actor) mark {
	if who == audit.KV {
		return mark{string(who), warn}
	}
	return mark{string(who), plain}
}
