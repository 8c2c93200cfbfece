package logic

import (
	"context"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

const (
	// frameRoom is what a page's events may take of a reply frame; the rest is for
	// what stands around them.
	frameRoom = impart.MaxPage - 4<<10
	// listRoom is the same for a list of at most [impart.MaxLimit] conversations,
	// each of which needs up to half a KiB besides its newest event.
	listRoom = impart.MaxPage / 2
)

// Sync implements [impart.Log].
func (s *Service) Sync(ctx context.Context, sync impart.Sync) (impart.Page, error) {
	query, err := pageQuery(&sync)
	if err != nil {
		return impart.Page{}, s.answer(ctx, "sync", err)
	}
	turn := s.ledger.begin()
	page, err := s.store.Page(ctx, query)
	if err == nil {
		err = s.promiseShown(turn, page.Events, page.Epoch)
	}
	if err != nil {
		return impart.Page{}, s.answer(ctx, "sync", err)
	}
	s.epoch.saw(page.Epoch)
	return page, nil
}

func pageQuery(sync *impart.Sync) (store.PageQuery, error) {
	query := store.PageQuery{
		User: sync.User, Conv: sync.Conv, AfterMID: sync.AfterMID, MaxBytes: frameRoom, Epoch: sync.Epoch,
	}
	err := first(
		checkID("user", sync.User),
		checkID("conv", sync.Conv),
		checkOptional("after_mid", sync.AfterMID, impart.MaxID),
	)
	if err != nil {
		return query, err
	}
	switch {
	case (sync.After == nil) == (sync.Before == nil):
		return query, impart.Errorf(impart.BadFrame, "a sync needs exactly one of after and before")
	case sync.After != nil:
		query.After = *sync.After
	default:
		query.Before, query.Back = *sync.Before, true
	}
	query.Limit, err = checkLimit(sync.Limit)
	return query, err
}

// Convs implements [impart.Log].
func (s *Service) Convs(ctx context.Context, convs impart.Convs) (impart.ConvsPage, error) {
	limit, err := checkLimit(convs.Limit)
	err = first(
		err,
		checkID("user", convs.Session.User),
		checkOptional("device", convs.Session.Device, impart.MaxID),
		checkOptional("after", convs.After, impart.MaxID),
	)
	if err != nil {
		return impart.ConvsPage{}, s.answer(ctx, "convs", err)
	}
	page, err := s.store.Convs(ctx, convs.Session.User, convs.Session.Device, convs.After, limit, listRoom)
	if err != nil {
		return impart.ConvsPage{}, s.answer(ctx, "convs", err)
	}
	s.epoch.saw(page.Epoch)
	return page, nil
}
