// Jobs and plans as they travel between pages, agents and masters.
#pragma once

#include <string>

#include "model/travel.hpp"
#include "schedule/balancer.hpp"
#include "schedule/plan_page.hpp"

namespace tracesmith::schedule {

model::JobTerms termsOf(const std::string& job, model::Coordination coordination, int64_t ahead,
                        const BalancerConfig& config);
/// For a balancer. What they say may be anything: Balancer::create() checks it.
BalancerConfig configOf(const model::JobTerms& terms);
/// Of a page. Invalid: they are for another job than the page.
Result<model::JobTerms> termsOf(const PlanPage& page);
/// A page that has them in it.
Result<std::unique_ptr<PlanPage>> createPage(const std::string& path, const model::JobTerms& terms);

/// `agreed`: from_step is known.
model::JobPlan toTravel(const Plan& plan, bool agreed);
/// A plan that a job of so many ranks and samples can follow.
Result<Plan> fromTravel(const model::JobPlan& plan, int64_t ranks, int64_t total);

}  // namespace tracesmith::schedule
