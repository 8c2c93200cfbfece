package logic

import (
	"context"

	"github.com/impart-im/impart"
)

// Who implements [impart.Cursors].
func (s *Service) Who(ctx context.Context, who impart.Who) (impart.Report, error) {
	limit, err := checkLimit(who.Limit)
	err = first(
		err,
		checkID("user", who.User),
		checkID("conv", who.Conv),
		checkOptional("after", who.After, impart.MaxID),
	)
	if err != nil {
		return impart.Report{}, s.answer(ctx, "who", err)
	}
	who.Limit = limit
	report, err := s.store.Report(ctx, who)
	if err != nil {
		return impart.Report{}, s.answer(ctx, "who", err)
	}
	return report, nil
}
