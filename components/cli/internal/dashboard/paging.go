package dashboard

import (
	"net/url"
	"strconv"
	"strings"
)

// pageSize is the number of rows of a page: the bytes of a page do not grow with a group.
const pageSize = 100

// filter selects rows by words, state and page. All of it comes from the address.
type filter struct {
	// Words must all occur in a row, in any case of letters.
	Words string
	State string
	Page  int // from 1
}

// maxWords bounds the searched text.
const maxWords = 200

func filterOf(q url.Values) filter {
	f := filter{Words: strings.TrimSpace(q.Get("q")), State: q.Get("state"), Page: 1}
	if len(f.Words) > maxWords {
		f.Words = strings.ToValidUTF8(f.Words[:maxWords], "")
	}
	if n, err := strconv.Atoi(q.Get("page")); err == nil && n > 1 {
		f.Page = n
	}
	return f
}

// matches reports whether all words of the filter occur in the texts of a row.
func (f filter) matches(texts ...string) bool {
	all := strings.ToLower(strings.Join(texts, "\n"))
	for _, word := range strings.Fields(strings.ToLower(f.Words)) {
		if !strings.Contains(all, word) {
			return false
		}
	}
	return true
}

// pager is the navigation below a list.
type pager struct {
	From, To, Total int
	// Previous and Next are addresses; empty: there is no such page.
	Previous, Next string
}

// paged cuts one page out of rows. path is the address of the list.
func paged[T any](rows []T, f filter, path string) ([]T, pager) {
	pages := max(1, (len(rows)+pageSize-1)/pageSize)
	page := min(f.Page, pages)
	from := (page - 1) * pageSize
	to := min(len(rows), from+pageSize)
	p := pager{From: from + 1, To: to, Total: len(rows)}
	if len(rows) == 0 {
		p.From = 0
	}
	if page > 1 {
		p.Previous = f.address(path, page-1)
	}
	if page < pages {
		p.Next = f.address(path, page+1)
	}
	return rows[from:to], p
}

func (f filter) address(path string, page int) string {
	q := url.Values{}
	if f.Words != "" {
		q.Set("q", f.Words)
	}
	if f.State != "" {
		q.Set("state", f.State)
	}
	if page > 1 {
		q.Set("page", strconv.Itoa(page))
	}
	if len(q) == 0 {
		return path
	}
	if strings.Contains(path, "?") {
		return path + "&" + q.Encode()
	}
	return path + "?" + q.Encode()
}

// search is the form above a list.
type search struct {
	Path   string
	Filter filter
	States []choice
	// Label names the rows that the words select.
	Label string
	// Slot is the node whose view is shown, on a page that asks for one.
	Slot     string
	AsksSlot bool
}

type choice struct {
	Value, Text string
	Chosen      bool
}

func choices(chosen string, pairs ...string) []choice {
	out := make([]choice, 0, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		out = append(out, choice{pairs[i], pairs[i+1], pairs[i] == chosen})
	}
	return out
}
