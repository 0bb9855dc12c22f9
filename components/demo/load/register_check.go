package load

import (
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// Linearizability is the verdict on a history.
type Linearizability struct {
	// Result is "Ok", "Illegal" or "Unknown" (the time was not enough).
	Result string `json:"result"`
	// Operations that were checked, and how many of them have no known outcome.
	Operations int   `json:"operations"`
	Unknown    int   `json:"unknown"`
	Keys       int   `json:"keys"`
	TookMS     int64 `json:"took_ms"`
	// Illegal lists the keys without a legal order.
	Illegal []int `json:"illegal_keys,omitempty"`
}

// Check decides whether some order of the operations, each at one instant between its call and its
// return, explains all answers. A write without an answer may have that instant at any time after
// its call; a write that never happened is the same as a write after everything else. limit bounds
// the search for each key.
func Check(history []RegisterOp, limit time.Duration) Linearizability {
	began := time.Now()
	v := Linearizability{Result: string(porcupine.Ok)}
	byKey := map[int][]porcupine.Operation{}
	for _, op := range history {
		if op.Unknown && op.Kind == RegisterRead {
			continue // says nothing
		}
		v.Operations++
		end := op.Return
		if op.Unknown {
			v.Unknown++
			end = math.MaxInt64
		}
		byKey[op.Key] = append(byKey[op.Key], porcupine.Operation{
			ClientId: op.Client, Input: op, Call: op.Call, Output: op, Return: end,
		})
	}
	v.Keys = len(byKey)
	for key, ops := range byKey {
		switch porcupine.CheckOperationsTimeout(registerModel, ops, limit) {
		case porcupine.Illegal:
			v.Illegal = append(v.Illegal, key)
			v.Result = string(porcupine.Illegal)
		case porcupine.Unknown:
			if v.Result == string(porcupine.Ok) {
				v.Result = string(porcupine.Unknown)
			}
		case porcupine.Ok:
		}
	}
	slices.Sort(v.Illegal)
	v.TookMS = time.Since(began).Milliseconds()
	return v
}

// registerModel is one register; its state is the value, 0 at first.
var registerModel = porcupine.Model{
	Init: func() any { return int64(0) },
	Step: func(state, input, _ any) (bool, any) {
		value, op := state.(int64), input.(RegisterOp)
		ok, next := registerStep(value, op)
		return ok, next
	},
}

func registerStep(value int64, op RegisterOp) (legal bool, next int64) {
	switch {
	case op.Kind == RegisterRead:
		return op.Value == value, value
	case op.Kind == RegisterPut:
		return true, op.ID
	case op.Unknown && value == op.Expect, op.Swapped && value == op.Expect:
		return true, op.ID
	case op.Unknown:
		return true, value
	case op.Swapped:
		return false, value
	}
	return value != op.Expect && value == op.Value, value
}
