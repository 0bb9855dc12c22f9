package dashboard

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/client/clienttest"
	"cadre.dev/core/audit"
)

// acts is a chain with a length, whose every tenth entry is about the group web.
func acts(length int) []audit.Entry {
	list := make([]audit.Entry, 0, length)
	for n := range length {
		e := audit.Entry{Who: audit.Leader, By: "coordinator-1", Verb: "accept", Object: "groups/postgres/accepted"}
		if n%10 == 9 {
			e = audit.Entry{Who: audit.Operator, By: "ann", Verb: "apply", Object: "groups/web/spec", Reason: fmt.Sprintf("release %d", n/10)}
		}
		list = append(list, e)
	}
	return list
}

var auditNumber = regexp.MustCompile(`data-label="#">(\d+)<`)

func auditNumbers(page string) (numbers []string) {
	for _, m := range auditNumber.FindAllStringSubmatch(page, -1) {
		numbers = append(numbers, m[1])
	}
	return numbers
}

// The page has the newest 200 entries, newest first, and an object selects the entries about it.
func TestTheNewestEntriesOfTheAuditChain(t *testing.T) {
	s := clienttest.New(t)
	setAudit(s, acts(437)...)
	b := entered(t, s)
	for path, c := range map[string]struct {
		count       int
		first, last string
		want        string
	}{
		"audit":                                {100, "437", "338", "entries 238 to 437"},
		"audit?page=2":                         {100, "337", "238", "101–200 of 200"},
		"audit?q=web":                          {20, "430", "240", "release 42"},
		"audit?q=groups/postgres":              {100, "437", "", `href="audit?page=2&amp;q=groups%2Fpostgres"`},
		"audit?q=groups%2Fweb%2Fspec":          {20, "430", "240", `value="groups/web/spec"`},
		"audit?q=we":                           {0, "", "", "None of these entries is about <span class=\"mono\">we</span>"},
		"audit?q=" + strings.Repeat("x", 5000): {0, "", "", `<span class="mono">` + strings.Repeat("x", maxWords) + "</span>"},
	} {
		code, page := b.get(path)
		numbers := auditNumbers(page)
		if code != http.StatusOK || len(numbers) != c.count || !strings.Contains(page, c.want) {
			t.Errorf("%.40s: %d with %d entries, want %d with %q: %s", path, code, len(numbers), c.count, c.want, page)
			continue
		}
		if c.first != "" && numbers[0] != c.first || c.last != "" && numbers[len(numbers)-1] != c.last {
			t.Errorf("%.40s: entries %v, want from %s to %s", path, numbers, c.first, c.last)
		}
	}
}

// A short chain, whose oldest entries were removed, has all kept entries; an empty chain says so.
func TestAShortAuditChain(t *testing.T) {
	s := clienttest.New(t)
	b := entered(t, s)
	if code, page := b.get("audit"); code != http.StatusOK || !strings.Contains(page, "The audit chain has no entry.") {
		t.Errorf("an empty chain: %d %s", code, page)
	}
	var head audit.Head
	entries := acts(5)
	for n := range entries {
		head, entries[n] = head.Append(entries[n])
		if n == 1 {
			head.Checkpoint = head.Last
		}
	}
	s.SetAudit(head, entries[2:], noon)
	other := entered(t, s)
	if code, page := other.get("audit"); code != http.StatusOK || !slices.Equal(auditNumbers(page), []string{"5", "4", "3"}) {
		t.Errorf("%d with entries %v: %s", code, auditNumbers(page), page)
	}
}

// The link of a group's page leads to the entries about the group.
func TestTheEntriesOfAGroup(t *testing.T) {
	b := entered(t, world(t))
	_, page := b.get("groups/postgres")
	link := regexp.MustCompile(`<a href="(audit[^"]*)">Entries about postgres</a>`).FindStringSubmatch(page)
	if link == nil {
		t.Fatalf("no link: %s", page)
	}
	if _, page := b.get(html.UnescapeString(link[1])); !slices.Equal(auditNumbers(page), []string{"2", "1"}) {
		t.Errorf("entries %v: %s", auditNumbers(page), page)
	}
	for _, name := range []string{"a&b=c", "a b", "50%", evil} {
		u, err := url.Parse(auditPath(name))
		if err != nil || u.Path != "audit" || filterOf(u.Query()).Words != name {
			t.Errorf("%q: the address is %s, %v", name, auditPath(name), err)
		}
	}
}

// An answer that says no appears word by word.
func TestAnAuditChainThatIsNotShown(t *testing.T) {
	for name, c := range map[string]struct {
		method string
		err    error
		code   int
	}{
		"denied":        {"GetAuditHead", status.Error(codes.PermissionDenied, "PERMISSION_DENIED: the token may not read audit/"), http.StatusForbidden},
		"unimplemented": {"GetAuditHead", status.Error(codes.Unimplemented, "unknown service cadre.api.v1.AuditService"), http.StatusBadGateway},
		"removed":       {"ListAudit", status.Error(codes.Aborted, "entry 7 was removed while it was read"), http.StatusConflict},
	} {
		t.Run(name, func(t *testing.T) {
			b := entered(t, world(t))
			b.Fail(c.method, c.err)
			words := status.Convert(c.err).Message()
			code, page := b.get("audit")
			if code != c.code || !strings.Contains(page, words) || strings.Contains(page, "ticket-7") {
				t.Errorf("%d, want %d with %q: %s", code, c.code, words, page)
			}
		})
	}
}

// A new entry appears without a reload, also after an answer that says no.
func TestANewEntryAppears(t *testing.T) {
	s := world(t)
	s.Fail("ListAudit", status.Error(codes.PermissionDenied, "PERMISSION_DENIED: the token may not read audit/"))
	b := entered(t, s)
	e := b.stream("audit&q=_all")
	e.until("fragment", "the token may not read audit/")
	setAudit(s, audit.Entry{Who: audit.Operator, By: "bob", Verb: "end-freeze", Object: "control/freeze/_all", Reason: "all is well"})
	s.Fail("ListAudit", nil)
	e.until("fragment", "all is well")
}
