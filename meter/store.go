package meter

import "context"

// Store keeps meters. There are two: [Redis] and [Memory].
type Store interface {
	// open returns the keeper of the meters of one law.
	open(w *law, prefix string) keeper
	// all is opTake for several meters: they take only when no claim that must conform is refused.
	all(ctx context.Context, claims []claim) ([]answer, error)
}

// keeper keeps the meters of one law in one store.
type keeper interface {
	do(ctx context.Context, key string, c call) (answer, error)
	reset(ctx context.Context, key string) error
}

// claim is one of several takes at once.
type claim struct {
	keeper keeper
	key    string
	cost   int64
	must   bool // a refusal of it refuses all
}
