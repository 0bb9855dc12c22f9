package load

import (
	"slices"
	"testing"
	"time"
)

func read(call, ret, value int64) RegisterOp {
	return RegisterOp{Kind: RegisterRead, Call: call, Return: ret, Value: value}
}

func put(id, call, ret int64) RegisterOp {
	return RegisterOp{Kind: RegisterPut, ID: id, Call: call, Return: ret}
}

func swap(id, expect, call, ret int64) RegisterOp {
	return RegisterOp{Kind: RegisterSwap, ID: id, Expect: expect, Swapped: true, Call: call, Return: ret}
}

func refused(id, expect, saw, call, ret int64) RegisterOp {
	return RegisterOp{Kind: RegisterSwap, ID: id, Expect: expect, Value: saw, Call: call, Return: ret}
}

func unknown(op RegisterOp) RegisterOp {
	op.Unknown = true
	return op
}

func TestCheck(t *testing.T) {
	for name, tc := range map[string]struct {
		want string
		ops  []RegisterOp
	}{
		"in order":                      {"Ok", []RegisterOp{read(0, 1, 0), put(1, 2, 3), read(4, 5, 1), swap(2, 1, 6, 7), read(8, 9, 2)}},
		"concurrent, either order":      {"Ok", []RegisterOp{put(1, 0, 10), put(2, 0, 10), read(11, 12, 1)}},
		"a swap refused rightly":        {"Ok", []RegisterOp{put(1, 0, 1), refused(2, 9, 1, 2, 3), read(4, 5, 1)}},
		"a lost acknowledged write":     {"Illegal", []RegisterOp{put(1, 0, 1), read(2, 3, 0)}},
		"a stale read":                  {"Illegal", []RegisterOp{put(1, 0, 1), put(2, 2, 3), read(4, 5, 1)}},
		"a read that goes back":         {"Illegal", []RegisterOp{put(1, 0, 9), read(1, 2, 1), read(3, 4, 0)}},
		"a value from the future":       {"Illegal", []RegisterOp{read(0, 1, 1), put(1, 2, 3)}},
		"a value that nobody wrote":     {"Illegal", []RegisterOp{put(1, 0, 1), read(2, 3, 7)}},
		"two swaps of the same value":   {"Illegal", []RegisterOp{swap(1, 0, 0, 9), swap(2, 0, 0, 9)}},
		"a swap refused wrongly":        {"Illegal", []RegisterOp{put(1, 0, 1), refused(2, 1, 1, 2, 3)}},
		"unknown, never happened":       {"Ok", []RegisterOp{unknown(put(1, 0, 1)), read(2, 3, 0), read(4, 5, 0)}},
		"unknown, happened late":        {"Ok", []RegisterOp{unknown(put(1, 0, 1)), read(2, 3, 0), read(4, 5, 1)}},
		"unknown, happened and undone":  {"Illegal", []RegisterOp{unknown(put(1, 0, 1)), read(2, 3, 1), read(4, 5, 0)}},
		"unknown, seen before its call": {"Illegal", []RegisterOp{read(0, 1, 1), unknown(put(1, 2, 3))}},
		"unknown, happened twice":       {"Illegal", []RegisterOp{unknown(put(1, 0, 1)), read(2, 3, 1), put(2, 4, 5), read(6, 7, 1)}},
		"unknown swap that took effect": {"Ok", []RegisterOp{put(1, 0, 1), unknown(swap(2, 1, 2, 3)), read(4, 5, 1), read(6, 7, 2)}},
		"unknown swap that could not":   {"Illegal", []RegisterOp{put(1, 0, 1), unknown(swap(2, 9, 2, 3)), read(4, 5, 2)}},
		"unknown read says nothing":     {"Ok", []RegisterOp{put(1, 0, 1), unknown(read(2, 3, 0))}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Check(tc.ops, time.Second); got.Result != tc.want {
				t.Errorf("check = %+v, want %s", got, tc.want)
			}
		})
	}
}

func TestCheckNamesTheKey(t *testing.T) {
	bad := read(2, 3, 0)
	bad.Key = 4
	write := put(1, 0, 1)
	write.Key = 4
	got := Check([]RegisterOp{put(2, 0, 1), read(2, 3, 2), write, bad}, time.Second)
	if got.Result != "Illegal" || !slices.Equal(got.Illegal, []int{4}) || got.Keys != 2 || got.Operations != 4 {
		t.Errorf("check = %+v, want key 4 of 2 to be illegal", got)
	}
}
