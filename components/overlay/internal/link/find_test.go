package link

import "testing"

// A Peer remembers the epochs of a Boot longer than the Boot's own Link may live.
func TestEpochsBeginAfterEarlierLinksOnes_OVL03(t *testing.T) {
	f := finds("b1")
	f.Epoch = 100
	play(t, []scriptStep{
		{Changed{f}, Dialing, []Effect{Cancel{}, Find{Epoch: 101, Controlling: true, Boot: "b1"}}},
		{FindEnded{Epoch: 101}, BackOff, []Effect{ArmFind{1, findMin / 2}}},
		{FindTimer{1}, Dialing, []Effect{Find{Epoch: 102, Controlling: true, Boot: "b1"}}},
	})
}

// A path that was found and that died during the search is searched again at once, and
// only once.
func TestPathThatDiesDuringASearch(t *testing.T) {
	play(t, []scriptStep{
		{Changed{finds("b1")}, Dialing, []Effect{Cancel{}, Find{Epoch: 1, Controlling: true, Boot: "b1"}}},
		{Connected{Session: 7, Boot: "b1", Class: Relay}, Up, []Effect{Use{7}}},
		{Quiet{}, Up, nil},
		{FindEnded{Epoch: 1}, Up, []Effect{Find{Epoch: 2, Controlling: true, Boot: "b1"}}},
		{Quiet{}, Up, nil},
		{FindEnded{Epoch: 2}, Up, []Effect{ArmFind{1, findMin}}},
	})
}

// A nudge for a search that the Peer has not heard of yet asks for exactly that search; a
// later nudge may have come after the Peer took part.
func TestNudgeBeforeTheOfferIsServedByIt(t *testing.T) {
	play(t, []scriptStep{
		{Changed{finds("b1")}, Dialing, []Effect{Cancel{}, Find{Epoch: 1, Controlling: true, Boot: "b1"}}},
		{Nudged{Boot: "b1", Undelivered: true}, Dialing, nil},
		{Connected{Session: 7, Boot: "b1", Class: DirectTCP}, Up, []Effect{Use{7}}},
		{FindEnded{Epoch: 1}, Up, nil},
		{Nudged{Boot: "b1", Undelivered: true}, Up, []Effect{Find{Epoch: 2, Controlling: true, Boot: "b1"}}},
	})
}
