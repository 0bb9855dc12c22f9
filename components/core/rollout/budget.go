package rollout

import (
	"fmt"
	"strings"

	"cadre.dev/core/names"
)

// away is the set of members that the group lacks: their number, and up to named of their Slots for messages.
type away struct {
	n    int
	some []string
}

func btoi(ok bool) int {
	if ok {
		return 1
	}
	return 0
}

// named is the maximum number of Slots in a message. The message counts the other Slots.
const named = names.Shown

// are returns the names with their verb, for example "db-1, db-2 and 3 more are".
func (a away) are() string {
	switch more := a.n - len(a.some); {
	case more > 0:
		return fmt.Sprintf("%s and %d more are", strings.Join(a.some, ", "), more)
	case a.n == 1:
		return a.some[0] + " is"
	}
	return strings.Join(a.some, ", ") + " are"
}
