mod programs;
mod random_plans;
